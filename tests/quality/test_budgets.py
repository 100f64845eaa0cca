"""Trainings that go on for so many seconds: a verdict that names the clock, and no run that never ends."""

from pathlib import Path

import pytest

from tests.answers import answered
from tests.launch.conftest import write

# The three shapes end in every treatment of the clock in tests/factors/test_clock.py, too.
pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("shape", SHAPES)
def test_a_training_by_the_clock_gets_its_verdict(shape: str, tmp_path: Path) -> None:
    """With few runs, so the lines are named together; none of them is ended by us."""
    write(tmp_path, {"it.py": SCRIPT.format(SHAPES[shape])})

    verdict = answered(tmp_path, "check", "--max-runs", "6", "it.py")

    assert verdict["verdict"] == "different"
    (cause,) = verdict["causes"]
    assert cause["factor"] == "clock"
    assert cause["location"]["line"] == 12
    assert not any(run["timed_out"] for run in verdict["runs"])


def test_a_training_that_only_measures_its_time_is_clean(tmp_path: Path) -> None:
    """The twin: the clock is read, and has no say."""
    write(tmp_path, {"it.py": SCRIPT.format(CLEAN)})

    assert answered(tmp_path, "check", "--runs", "2", "it.py")["verdict"] == "same"
