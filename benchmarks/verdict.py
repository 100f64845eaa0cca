"""How long a verdict takes, in lengths of the plain script: all in one run, the plain script in turns with the checks.

python benchmarks/verdict.py                  # 3,000 steps of 10 ms, about half an hour
python benchmarks/verdict.py --steps 600      # quicker, and start-up weighs more
python benchmarks/verdict.py --only 'quick|two'   # rows whose name has that
python benchmarks/verdict.py --max-runs 20    # options of `samebits check`

Steps sleep, so that a busy machine does not matter; start-up does not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from samebits.checking import plan as plans
from samebits.checking.facts import read_facts
from samebits.checking.plan import CheckRequest
from samebits.launch.command import parse_command
from samebits.launch.process import run_in
from samebits.workspace.workspace import Workspace

SCRIPT = """
import sys, time
import torch

kind, steps = sys.argv[1], int(sys.argv[2])
if kind != "start":
    torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(steps):
    time.sleep(0.01)
    x = torch.ones(4, 8)
    if kind == "late" and step == steps // 6:
        import random
        x = x * random.random()
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""
LINES = "\n".join(f"layer{i} = torch.nn.Linear(4, 4)" for i in range(20))
TWENTY = f"""
import time
import torch

{LINES}
model = torch.nn.Sequential({", ".join(f"layer{i}" for i in range(20))})
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(200):
    time.sleep(0.01)
    optimizer.zero_grad()
    model(torch.ones(4, 4)).sum().backward()
    optimizer.step()
"""
TWO = """
import random, time
import torch

class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 200
    def __getitem__(self, index):
        scale = random.random()
        shift = random.gauss(0, 1)
        return scale * torch.ones(4) + shift

first = torch.nn.Linear(4, 4)
second = torch.nn.Linear(4, 1)
model = torch.nn.Sequential(first, second)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for x in torch.utils.data.DataLoader(Noisy(), batch_size=1):
    time.sleep(0.01)
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""
# Name → arguments of the script, options of the check, and how it is to end.
CHECKS = {
    "same bits": ("same", [], 0),
    "same bits, --jobs 1": ("same", ["--jobs", "1"], 0),
    "from step 0": ("start", [], 1),
    "from step 0, --jobs 1": ("start", ["--jobs", "1"], 1),
    "from a sixth": ("late", [], 1),
    "from a sixth, --jobs 1": ("late", ["--jobs", "1"], 1),
    "--quick, same": ("same", ["--quick"], 0),
}


def main() -> None:
    """Print a row for each check."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--only", default="")
    options, more = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in (("train.py", SCRIPT), ("twenty.py", TWENTY), ("two.py", TWO)):
            (folder / file).write_text(text)
        print(f"{'check':<28} {'seconds':>8} {'lengths':>8} {'first words':>12} {'runs':>5} {'past the step':>14}")
        for label, (kind, words, status) in CHECKS.items():
            if re.search(options.only, label):
                script = ["train.py", kind, str(options.steps)]
                length = _plain(folder, script)
                _print(label, length, _check(folder, [*more, *words, *script], status))
        for label, script in (("twenty lines", ["twenty.py"]), ("two causes, four lines", ["two.py"])):
            if re.search(options.only, label):
                _print(label, _plain(folder, script), _check(folder, [*more, *script], 1))
        if re.search(options.only, "start-up"):
            _start_up(folder)


def _start_up(folder: Path, pairs: int = 15) -> None:
    """What a run of three steps takes more than the plain script, in turns with it; and the static look at its code."""
    os.chdir(folder)
    (folder / "runs").mkdir()
    script = ["train.py", "same", "3"]
    request = CheckRequest(parse_command(script))
    workspace = Workspace(folder / "runs")
    pinned = plans.pinned_run(request, request.pinnable(), None)
    more: dict[str, list[float]] = {"left alone": [], "pinned and watched": [], "reading what it noted": []}
    for number in range(pairs):
        plain = _plain(folder, script)
        for name, plan in (("left alone", request.base("control")), ("pinned and watched", pinned)):
            path = folder / "runs" / f"start-{number}-{plan.role}"
            more[name].append(run_in(workspace, request.command, plan, path).wall_seconds - plain)
        start = time.perf_counter()
        read_facts(path)
        more["reading what it noted"].append(time.perf_counter() - start)
    for name, seconds in more.items():
        low, _, high = statistics.quantiles(seconds, n=4)
        print(f"start-up, {name:<24} {statistics.median(seconds):>6.3f} s ({low:.3f} to {high:.3f}, {pairs} pairs)")


def _plain(folder: Path, script: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, *script], cwd=folder, check=True)
    return time.perf_counter() - start


def _check(folder: Path, words: list[str], status: int) -> tuple[float, float, dict]:
    """Seconds until the answer, seconds until its first words, and the answer."""
    command = [sys.executable, "-m", "samebits", "check", "--format", "json", *words]
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stdout is not None
    said = [(time.perf_counter() - start, line) for line in process.stderr]
    answer = json.loads(process.stdout.read())
    seconds = time.perf_counter() - start
    assert process.wait() == status, said
    named = [at for at, line in said if line.startswith("so far:") and ".py:" in line]
    return seconds, named[0] if named else seconds, answer


def _print(label: str, length: float, found: tuple[float, float, dict]) -> None:
    seconds, first, answer = found
    steps = [run["steps"] for run in answer["runs"]]
    past = sum(count == max(steps) for count in steps)
    print(
        f"{label:<28} {seconds:>8.1f} {seconds / length:>8.2f} {first:>10.1f} s {len(steps):>5} {past:>14}", flush=True
    )


if __name__ == "__main__":
    main()
