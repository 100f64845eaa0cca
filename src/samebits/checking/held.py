"""Everything held still: the runs that all others of a round are compared with.

Held runs that diverge all the same end the search there: from that place on no factor can be accused.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from samebits.checking import plan as plans
from samebits.checking.asking import Asking
from samebits.checking.facts import Entry
from samebits.checking.plan import CheckRequest
from samebits.checking.treatments import Inquiry, ending_of
from samebits.checking.verdict import DivergentRuns, Run
from samebits.comparison.locate import Divergence, Position
from samebits.factors.catalog import find


class Held:
    """Runs with everything pinned, up to the step at which the runs diverge that are to be explained.

    Runs of earlier rounds that were treated so, and went as far, are among them.

    Args:
        inquiry: the check.
        at: where those runs diverge.

    Attributes:
        step: after which nothing is compared; None where runs go to their end.
        plan: of the first one, which keeps the tensors that differ, to say by how much.
        spare: of all others.
        runs: those made so far.
    """

    def __init__(self, inquiry: Inquiry, at: DivergentRuns) -> None:
        self.inquiry, self._at, place, request = inquiry, at, at.divergence, inquiry.request
        # A process among several may come to its step long after another one has passed the same number.
        ends_there = place.stream not in ("length", "outcome", "end", "product") and not place.process
        self.step = place.step if ends_there else None
        # What the user asked to vary does not move by itself: held, it may hide what does (workers, a generator).
        self._pins = tuple(name for name in request.pinnable() if at.varied or not _is_only_varied(request, name))
        self.plan = self.spare = plans.pinned_run(request, self._pins, None if inquiry.is_short else self.step)
        if self.step is not None:
            self.plan = replace(self.plan, keep_step=place.step, keep_streams=(place.stream,), keep_names=(place.name,))
        self.runs: list[Run] = []

    def begin(self) -> Asking[str]:
        """The first one; what later ones do differently is doubt. Why nothing can be tried, as a sentence, or ""."""
        self.runs = self.known(None)
        if not self.runs:
            self.runs = yield from self.inquiry.runs_of([self.plan])
            self.keep(None, self.runs)
        for run in self.runs[1:]:
            self.doubt(self.base, run)
        self.plan = replace(self.plan, settings=self.base.plan.settings, witness=self.base.plan.witness)
        self.spare = replace(self.plan, keep_step=None, keep_streams=(), keep_names=())
        if not self.base.succeeded and self._at.divergence.stream != "outcome":
            return f"with everything pinned, run {self.base.id} {ending_of(self.base)}, see {self.base.path}"
        return ""

    def known(self, what: Hashable) -> list[Run]:
        """Runs that were released so, or held (None), in this round or an earlier one, and went far enough."""
        runs = self.inquiry.known.get((self._pins, what), [])
        return list(runs) if all(_reaches(run, self.step) for run in runs) else []

    def keep(self, what: Hashable, runs: Sequence[Run]) -> None:
        """Keep runs for later rounds."""
        self.inquiry.known[self._pins, what] = list(runs)

    @property
    def base(self) -> Run:
        """The first one."""
        return self.runs[0]

    def add(self, run: Run) -> None:
        """One more."""
        self.runs.append(run)
        self.keep(None, self.runs)
        self.doubt(self.base, run)

    def entries(self, name: str) -> tuple[Entry, ...]:
        """The lines at which a factor entered these runs."""
        return self.base.facts.entries.get(name, ())

    def results(self) -> tuple[int, int]:
        """How many different results they gave, and how many runs that were."""
        limit, self.inquiry.unsteady = self.inquiry.unsteady, None
        try:
            return len(self.classes(self.runs)), len(self.runs)
        finally:
            self.inquiry.unsteady = limit

    # ---- where runs differ

    def differ(self, a: Run, b: Run) -> Divergence | None:
        """Where two runs differ, before anything is unsteady and not after the divergent step."""
        place = self.inquiry.compare(a, b)
        if place is None or place.position >= self.limit():
            return None
        return place if self.step is None or place.step <= self.step else None

    def classes(self, runs: Sequence[Run]) -> list[list[Run]]:
        """The runs, those with the same bits together."""
        found: list[list[Run]] = []
        for run in runs:
            own = next((one for one in found if self.differ(one[0], run) is None), None)
            if own is None:
                found.append([run])
            else:
                own.append(run)
        return found

    def limit(self) -> Position:
        """From where on nothing repeats."""
        unsteady = self.inquiry.unsteady
        return (2**62, 0) if unsteady is None else unsteady.divergence.position

    def is_hopeless(self) -> bool:
        """Whether runs treated alike diverge no later than those that are to be explained."""
        return self.limit() <= self._at.divergence.position

    def doubt(self, a: Run, b: Run) -> None:
        """Two runs treated alike: from where they diverge, no factor can be accused."""
        place = self.differ(a, b)
        if place is not None:
            self.inquiry.doubt(DivergentRuns(a.id, b.id, place))


def _is_only_varied(request: CheckRequest, name: str) -> bool:
    return name in request.vary and not find(name).varies_between_runs


def _reaches(run: Run, step: int | None) -> bool:
    last = run.facts.stopped_after
    return last is None or (step is not None and last >= step)
