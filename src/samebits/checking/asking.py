"""How decisions ask for runs: a generator yields plans, is sent the runs made of them, and returns what follows.

Decisions are pure in this way: plans out, records in. `experiments` answers them with real runs, the tests with
simulated scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias, TypeVar

from samebits.base.errors import SamebitsError
from samebits.checking.verdict import Run
from samebits.comparison.locate import Divergence
from samebits.runfolder.spec import RunSpec

T = TypeVar("T")

Asking: TypeAlias = Generator[Sequence[RunSpec], Sequence[Run], T]
Compare: TypeAlias = Callable[[Run, Run], "Divergence | None"]


class BudgetSpentError(Exception):
    """No further run will be made; raised where the generator waits for its runs.

    Args:
        signal: that ended the check; None where no run is left of `--max-runs`.
        trouble: why what the last runs recorded is no evidence, which is our failure.
    """

    def __init__(self, signal: int | None = None, trouble: SamebitsError | None = None) -> None:
        super().__init__(signal)
        self.signal, self.trouble = signal, trouble


def answered(asking: Asking[T], run_all: Callable[[Sequence[RunSpec]], Sequence[Run]]) -> T:
    """What `asking` returns when every question is answered by `run_all`."""
    try:
        plans = next(asking)
        while True:
            try:
                runs = run_all(plans)
            except BudgetSpentError as spent:
                plans = asking.throw(spent)
            else:
                plans = asking.send(runs)
    except StopIteration as end:
        found: T = end.value
        return found
