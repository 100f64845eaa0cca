"""How many runs go on side by side where `auto` decides."""

from pathlib import Path

import pytest

from samebits.checking.abreast import Need, fitting
from samebits.checking.facts import Facts
from samebits.checking.verdict import Run
from samebits.launch.process import Outcome
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.plan import RunPlan

MIB = 1024**2


def alone(used: tuple[str, ...] | None = ()) -> Run:
    """A run of ten seconds."""
    facts = Facts(used=None if used is None else frozenset(used))
    return Run(1, Outcome(RunFolder(Path("/run")), RunPlan("control"), 0, 10.0), 1, facts=facts)


@pytest.mark.parametrize(
    ("run", "busy", "free", "count"),
    [
        (alone(), 0.2, 100_000, 8),
        (alone(), 1.1, 100_000, 8),
        (alone(), 1.5, 100_000, 4),
        (alone(), 5.0, 100_000, 1),
        (alone(), 7.9, 100_000, 1),
        (alone(), 1.0, 4000, 3),
        (alone(), 1.0, 100, 1),
        (alone(), 1.0, None, 8),
        (alone(("compiled",)), 1.0, 100_000, 8),
        (alone(("ranks",)), 1.0, 100_000, 1),
        (alone(("cuda", "accelerator")), 1.0, 100_000, 1),
        (alone(None), 1.0, 100_000, 1),
    ],
)
def test_as_many_as_fit(run: Run, busy: float, free: int | None, count: int) -> None:
    """Cores and memory for all; one at a time with ranks, on an accelerator, or where that is not known."""
    need = Need(busy * 10, 1000 * MIB)

    assert fitting(8, run, need, None if free is None else free * MIB) == count
