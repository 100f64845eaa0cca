"""SIGKILL at any moment, also inside a save: begun again, a training ends in the bits of the uninterrupted one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def killed(folder: Path, trials: int, seed: int) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.state.killing", str(folder), str(trials), str(seed)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("trials", "seed"), [(20, 0), *(pytest.param(60, seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_a_killed_training_ends_in_the_same_bits(tmp_path: Path, trials: int, seed: int) -> None:
    """In a step, inside a save, and at any time; half of them twice, and all of them."""
    found = killed(tmp_path, trials, seed)

    assert [one["digest"] for one in found["trials"]] == [found["digest"]] * trials
    assert [one["losses"] for one in found["trials"]] == [found["losses"]] * trials
    deaths = [(kind, died) for one in found["trials"] for kind, _, died in one["killed"]]
    assert {kind for kind, died in deaths if died} == {"step", "save", "time"}
    assert sum(died for _, died in deaths) >= trials * 0.8
