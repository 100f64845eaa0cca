"""How many runs go on side by side where `auto` decides."""

from pathlib import Path

import pytest

from samebits.checking import abreast
from samebits.checking.abreast import fitting_cores, fitting_run
from samebits.checking.facts import Facts
from samebits.checking.verdict import Run
from samebits.launch.process import Outcome
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.plan import RunPlan

MIB = 1024**2


def alone(used: tuple[str, ...] | None = (), ranks: int = 1) -> Run:
    facts = Facts(used=None if used is None else frozenset(used))
    return Run(1, Outcome(RunFolder(Path("/run")), RunPlan("control"), 0, 1.0), 1, ranks, facts)


@pytest.mark.parametrize(
    ("variables", "count"),
    [
        ({}, 1),
        ({"OMP_NUM_THREADS": "2"}, 4),
        ({"OMP_NUM_THREADS": "3,2"}, 2),
        ({"OMP_NUM_THREADS": "many", "MKL_NUM_THREADS": "1"}, 8),
        ({"OMP_NUM_THREADS": "64"}, 1),
        ({"OMP_NUM_THREADS": "0"}, 1),
    ],
)
def test_every_run_keeps_its_threads(variables: dict[str, str], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is said, a run takes all cores, and goes alone."""
    monkeypatch.setattr(abreast, "cores", lambda: 8)

    assert fitting_cores(variables) == count


@pytest.mark.parametrize(
    ("run", "free", "count"),
    [
        (alone(), 100_000, 8),
        (alone(), 4000, 3),
        (alone(), 100, 1),
        (alone(), None, 8),
        (alone(ranks=4), 100_000, 2),
        (alone(ranks=16), 100_000, 1),
        (alone(("cuda",)), 100_000, 1),
        (alone(None), 100_000, 1),
    ],
)
def test_what_the_first_run_took_counts(run: Run, free: int | None, count: int) -> None:
    """Memory for all, cores for all ranks, and one at a time on an accelerator or where that is not known."""
    known = free if free is None else free * MIB

    assert fitting_run(8, run, peak=1000 * MIB, free=known) == count


def test_the_machine_says_what_it_has() -> None:
    """A process that ended took some memory, and some is free."""
    assert abreast.cores() >= 1
    free = abreast.free_bytes()
    assert free is None or free > MIB
