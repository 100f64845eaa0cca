"""Trainings that go on for so many seconds: a verdict that names the clock, and no run that never ends."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.launch.conftest import SAMEBITS, write
from tests.schemas import assert_valid

SCRIPT = """
import time
from datetime import datetime, timedelta
import torch
torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
def step():
    optimizer.zero_grad()
    model(torch.ones(8, 3)).sum().backward()
    optimizer.step()
{}
"""
SHAPES = {
    "time": "start = time.time()\nwhile True:\n    step()\n    if time.time() - start > 0.3:\n        break",
    "counter": "deadline = time.perf_counter() + 0.3\nwhile time.perf_counter() < deadline:\n    step()",
    "date": "start = datetime.now()\nwhile datetime.now() - start < timedelta(seconds=0.3):\n    step()",
}
CLEAN = "start = time.time()\nfor _ in range(20):\n    step()\nprint(time.time() - start)"


def check(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = [SAMEBITS, "check", "--format", "json", *options, "it.py"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.parametrize(
    "shape", [pytest.param(one, marks=[] if one == "time" else [pytest.mark.slow]) for one in SHAPES]
)
def test_a_training_by_the_clock_gets_its_verdict(shape: str, tmp_path: Path) -> None:
    """With few runs, so the lines are named together; none of them is ended by us."""
    write(tmp_path, {"it.py": SCRIPT.format(SHAPES[shape])})

    done = check(tmp_path, "--max-runs", "6")

    verdict = json.loads(done.stdout)
    assert_valid(verdict)
    assert (done.returncode, verdict["verdict"]) == (1, "different")
    (cause,) = verdict["causes"]
    assert cause["factor"] == "clock"
    assert cause["location"]["line"] == 12
    assert not any(run["timed_out"] for run in verdict["runs"])


def test_a_training_that_only_measures_its_time_is_clean(tmp_path: Path) -> None:
    """The twin: the clock is read, and has no say."""
    write(tmp_path, {"it.py": SCRIPT.format(CLEAN)})

    done = check(tmp_path, "--runs", "2")

    assert (done.returncode, json.loads(done.stdout)["verdict"]) == (0, "same")
