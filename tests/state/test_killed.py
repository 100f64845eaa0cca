"""SIGKILL at any moment, also inside a save: begun again, a training ends in the bits of the uninterrupted one."""

import json
from pathlib import Path

import pytest

from tests.running import printed_by


@pytest.mark.parametrize(
    ("trials", "seed"), [(6, 0), *(pytest.param(60, seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_a_killed_training_ends_in_the_same_bits(tmp_path: Path, trials: int, seed: int) -> None:
    """In a step, inside a save, and at any time; half of them twice, and all of them."""
    found = json.loads(printed_by("tests.state.killing", tmp_path, trials, seed))

    assert [one["digest"] for one in found["trials"]] == [found["digest"]] * trials
    assert [one["losses"] for one in found["trials"]] == [found["losses"]] * trials
    deaths = [(kind, died) for one in found["trials"] for kind, _, died in one["killed"]]
    assert {kind for kind, died in deaths if died} == {"step", "save", "time"}
    assert sum(died for _, died in deaths) >= trials * 0.8
