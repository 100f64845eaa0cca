"""Whole trainings with operations replaced: do they repeat where nothing else does, and what does a step cost?

    python -m benchmarks.nets [NET ...]

The nets are those of `tests/ops/nets`. First they are run on the stand-in for a GPU whose additions come in a random
order (`tests/standin`): what deterministic algorithms refuse first, and how many different ends runs have, plain and
with operations replaced, by one and by two threads. Then steps are timed, with one thread: on CPU tensors with the
formulas in the place of the CPU's kernels; and on the stand-in without races, also with `torch-algorithms=warn`, which
lets pass what is refused and computes the rest as torch's deterministic algorithms do. The sides take turns; shown is
the median step, in milliseconds of processor time.
"""

import dataclasses
import importlib
import itertools
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import samebits
from samebits.ops import overrides
from samebits.ops.table import TABLE
from tests.standin import environment

ROOT = Path(__file__).parents[1]
NETS = ("segmentation", "detection", "ocr", "medical", "graph")
RUNS, THREADS, ROUNDS, STEPS = 5, (1, 2), 5, 12


def run(net, *words, threads=2):
    command = [sys.executable, "-m", "samebits", "run", *words, str(ROOT / f"tests/ops/nets/{net}.py")]
    env = environment("cuda", "races") | {"OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def ends(net, *words, threads=2):
    """How many different ends so many runs have."""
    done = [run(net, *words, threads=threads) for _ in range(RUNS)]
    assert not any(one.returncode for one in done), done[0].stderr
    return len({one.stdout for one in done})


def refusal(net):
    """What strict mode refuses, and at which line."""
    told = run(net, "--pin", "torch-algorithms=strict").stderr
    operation = re.search(r"RuntimeError: (\w+)", told)
    line = re.search(r"called at \S*/(\S+)", told)
    return f"{operation[1]} at {line[1]}" if operation and line else "nothing"


def seconds(net, device, sides):
    """The median step of each side."""
    torch.set_num_threads(1)
    train = importlib.import_module(f"tests.ops.nets.{net}").train
    batch = importlib.import_module(f"tests.ops.nets.{net}").parser.get_default("batch")
    now, found = [], {side: [] for side in sides}
    register_optimizer_step_post_hook(lambda *_: now.append(time.process_time()))
    for round_ in range(ROUNDS + 1):
        for side, begin in sides.items():
            now.clear()
            end = begin()
            train(STEPS, batch, device)
            end()
            if round_:
                found[side] += [b - a for a, b in itertools.pairwise(now[1:])]
    return {side: statistics.median(own) for side, own in found.items()}


def pinned(value):
    def begin():
        pins = samebits.pinned(factors=[], values={"torch-algorithms": value}, strict=True)
        pins.__enter__()
        return lambda: pins.__exit__(None, None, None)

    return begin


def replaced_on_cpu():
    torch.use_deterministic_algorithms(True)
    end = overrides.replace(lambda name: None)
    return lambda: (end(), torch.use_deterministic_algorithms(False))


def timed(net, where):
    """In a process of its own."""
    if where == "cpu":
        overrides.TABLE = tuple(dataclasses.replace(one, on_cpu=True) for one in TABLE)
        return seconds(net, "cpu", {"plain": lambda: lambda: None, "replace": replaced_on_cpu})
    sides = {"plain": lambda: lambda: None, "warn": pinned("warn"), "replace": pinned("replace")}
    return seconds(net, torch.accelerator.current_accelerator(), sides)


def told_by_itself(net, where):
    env = (environment("cuda") if where == "standin" else dict(os.environ)) | {"PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "benchmarks.nets", "--timed", net, where]
    return json.loads(subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout)


def main():
    if sys.argv[1:2] == ["--timed"]:
        print(json.dumps(timed(*sys.argv[2:])))
        return
    versions = f"torch {torch.__version__}, Python {platform.python_version()}"
    print(f"{versions}, {platform.machine()}, {os.cpu_count()} cores\n")
    chosen = sys.argv[1:] or NETS
    print(f"different ends of {RUNS} runs of 8 steps, on a device that races")
    print(f"{'':<14}{'plain':>6}" + "".join(f"{f'replaced, {n} thread' + 's' * (n > 1):>21}" for n in THREADS))
    refused = {}
    for net in chosen:
        refused[net] = refusal(net)
        counts = [ends(net, "--pin", "torch-algorithms=replace", threads=n) for n in THREADS]
        print(f"{net:<14}{ends(net, '--no-pin'):>6}" + "".join(f"{n:>21}" for n in counts), flush=True)
    print("\ndeterministic algorithms refuse")
    for net, words in refused.items():
        print(f"{net:<14}{words}")
    print("\na step, in ms and as a ratio to plain")
    print(f"{'':<14}{'CPU: plain':>11}{'replaced':>10}{'ratio':>7}", end="")
    print(f"{'stand-in: plain':>17}{'warn':>9}{'ratio':>7}{'replaced':>10}{'ratio':>7}")
    for net in chosen:
        line = f"{net:<14}"
        for where, width in (("cpu", 11), ("standin", 17)):
            plain, *others = (told_by_itself(net, where)).values()
            line += f"{plain * 1000:>{width}.2f}"
            for number, other in enumerate(others, 1):
                line += f"{other * 1000:>{10 if number == len(others) else 9}.2f}{other / plain:>7.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
