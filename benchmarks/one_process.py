"""What a step-level recording adds to a step, plain and recorded blocks of steps taking turns within one process.

    python benchmarks/one_process.py

Two processes of the same program may differ by a tenth for as long as they live, by where their memory happens to lie,
and `recording.py` starts several for that reason. Here both sides of a pair share a process, a model and its memory.
Every recorded block goes to a folder of its own; its first steps, which hold the optimizer's state, are not counted.
"""

import platform
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from workload import cnn, transformer

import samebits

MODELS = {"cnn": (cnn, 10, 20), "transformer": (transformer, 1, 10)}


def main() -> None:
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads")
    print("recorded over plain in one process: the median of the pairs, and its 95 % interval\n")
    print(f"{'':<14} {'plain ms':>8}   {'clock over plain':<26}{'processor over plain'}")
    for kind in sys.argv[1:] or MODELS:
        make, steps, pairs = MODELS[kind]
        plain, recorded = took(make, steps, pairs)
        ratios = [[own[i] / other[i] for own, other in zip(recorded, plain, strict=True)] for i in (0, 1)]
        milliseconds = statistics.median(wall for wall, _ in plain) / steps * 1000
        print(f"{kind:<14} {milliseconds:>8.1f}   {interval(ratios[0]):<26}{interval(ratios[1])}", flush=True)


def took(make, steps, pairs):
    """Seconds on the clock and of the processor, of plain blocks and of recorded ones."""
    torch.manual_seed(0)
    model, x, y = make()
    criterion = nn.CrossEntropyLoss()

    def block(optimizer):
        start, start_cpu = time.perf_counter(), time.process_time()
        for _ in range(steps):
            optimizer.zero_grad()
            criterion(model(x).flatten(0, -2), y.flatten()).backward()
            optimizer.step()
        return time.perf_counter() - start, time.process_time() - start_cpu

    def plain_block():
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
        for _ in range(3 if steps == 1 else 1):
            block(optimizer)
        return block(optimizer)

    def recorded_block(folder):
        with samebits.record(folder):
            # The optimizer's state, which is recorded in three first steps and then in every tenth, is left behind.
            return plain_block()

    found = [], []
    with tempfile.TemporaryDirectory() as home:
        for pair in range(pairs + 1):
            turns = [(0, plain_block), (1, lambda pair=pair: recorded_block(Path(home, str(pair))))]
            for side, work in turns if pair % 2 else reversed(turns):
                found[side].append(work())
    return found[0][1:], found[1][1:]


def interval(values):
    """The median with its 95 % interval, by resampling."""
    chance = random.Random(0)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(2000))
    return f"{statistics.median(values):.3f} ({medians[50]:.3f} to {medians[-51]:.3f})"


if __name__ == "__main__":
    main()
