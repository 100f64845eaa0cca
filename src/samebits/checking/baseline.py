"""Runs with everything pinned, which all other runs of a round are compared with.

Baseline runs that still diverge end the search for suspects: from that place on no factor can be accused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from samebits.checking import plan as plans
from samebits.checking.facts import Entry
from samebits.checking.inquiry import Asking, Inquiry
from samebits.checking.verdict import DivergentRuns, Run
from samebits.comparison.locate import Divergence, Position
from samebits.factors.catalog import find
from samebits.factors.context import SiteKey
from samebits.runfolder.spec import RunSpec

# At least this many steps are compared after the one at which runs diverged, unless the look ends before.
MORE_STEPS = 10


class Baseline:
    """Runs with everything pinned, which end a little after the step at which the runs to be explained diverge.

    Runs of earlier rounds with the same pins that went as far are among them.

    Attributes:
        at: the position of the divergence to be explained.
        step: the last step that is compared; None where runs go to their end.
        plan: the spec of the first run, which keeps the tensors that differ, to measure by how much.
        runs: the baseline runs made so far.
    """

    def __init__(self, inquiry: Inquiry, at: DivergentRuns) -> None:
        self.inquiry, place, request = inquiry, at.divergence, inquiry.request
        self.at, self._stream = place.position, place.stream
        # One of several processes may reach a step long after another process has passed the step of that number.
        ends_there = place.stream not in ("length", "outcome", "end", "product") and not place.process
        self.step = self._last_step(place.step) if ends_there else None
        # What the user asked to vary does not change by itself: pinned, it may hide what does (workers, a generator).
        self._pins = tuple(
            name
            for name in request.pinnable()
            if at.varied or name not in request.vary or find(name).varies_between_runs
        )
        self.plan = plans.pinned_run(request, self._pins, self.step)
        if ends_there:
            self.plan = replace(self.plan, keep_step=place.step, keep_streams=(place.stream,), keep_names=(place.name,))
        self.runs: list[Run] = []

    def _last_step(self, divergent: int) -> int | None:
        """Return a step some way after the divergent one, since with other values a draw may show at another step.

        It lies within the first look, unless runs diverge beyond that: then half as many steps are added.
        """
        looked = self.inquiry.first[0].stopped_after if self.inquiry.first else divergent
        if self.inquiry.is_short or looked is None:
            return None
        if divergent >= looked:
            return divergent + max(MORE_STEPS, divergent // 2)
        return min(2 * divergent + MORE_STEPS, looked)

    def begin(self) -> Asking[str]:
        """Make the first run, unless an earlier round has; return why nothing can be tried, as a sentence, or ""."""
        self.runs = self.known(None)
        if not self.runs:
            self.runs = yield from self.inquiry.runs_of([self.plan])
            self.keep(None, self.runs)
        for run in self.runs[1:]:
            self.note_if_unsteady(self.base, run)
        self.plan = replace(self.plan, settings=self.base.plan.settings, witness=self.base.plan.witness)
        if not self.base.succeeded and self._stream != "outcome":
            return f"with everything pinned, run {self.base.id} {self.base.ending}, see {self.base.path}"
        return ""

    @property
    def base(self) -> Run:
        """The run that all others are compared with."""
        return self.runs[0]

    @property
    def spare(self) -> RunSpec:
        """The spec of further baseline runs, which keep no tensors."""
        return plans.keeping_nothing(self.plan)

    def known(self, what: Hashable) -> list[Run]:
        """Return the runs of any round so far that released `what` (None: nothing), if they went far enough."""
        runs = self.inquiry.known.get((self._pins, what), [])
        ends = [run.stopped_after for run in runs]
        return list(runs) if all(end is None or (self.step is not None and end >= self.step) for end in ends) else []

    def keep(self, what: Hashable, runs: Sequence[Run]) -> None:
        """Keep the runs that released `what` for later rounds."""
        self.inquiry.known[self._pins, what] = list(runs)

    def add(self, run: Run) -> None:
        """Add a baseline run, and note where it diverges from the first one."""
        self.runs.append(run)
        self.keep(None, self.runs)
        self.note_if_unsteady(self.base, run)

    def entries(self, name: str) -> tuple[Entry, ...]:
        """Return the lines at which a factor entered the first baseline run."""
        return self.base.facts.entries.get(name, ())

    def only_line(self, name: str) -> tuple[SiteKey, ...]:
        """Return the one line at which a factor entered that libraries use by themselves, too; else nothing."""
        entries = self.entries(name)
        return (entries[0].site.key,) if len(entries) == 1 and name in self.base.facts.in_libraries else ()

    # ---- where runs differ

    def differ(self, a: Run, b: Run) -> Divergence | None:
        """Return where two runs differ, if that is before anything is unsteady and not after the last step."""
        place = self._by_the_step(a, b)
        return None if place is None or place.position >= self.limit else place

    def _by_the_step(self, a: Run, b: Run) -> Divergence | None:
        place = self.inquiry.compare(a, b)
        return None if place is None or (self.step is not None and place.step > self.step) else place

    def classes(self, runs: Sequence[Run]) -> list[list[Run]]:
        """Return the runs in groups: those with the same bits together."""
        return _classes(runs, self.differ)

    def classes_by_the_step(self, runs: Sequence[Run]) -> list[list[Run]]:
        """Return the runs in groups: those together that agree in all up to the last step, unsteady or not."""
        return _classes(runs, self._by_the_step)

    def results(self) -> tuple[int, int]:
        """Return how many different results the baseline runs gave, and how many runs there were."""
        return len(self.classes_by_the_step(self.runs)), len(self.runs)

    @property
    def limit(self) -> Position:
        """The earliest position at which runs treated alike diverge; nothing from there on counts."""
        unsteady = self.inquiry.unsteady
        return (2**62, 0) if unsteady is None else unsteady.divergence.position

    @property
    def is_hopeless(self) -> bool:
        """Whether runs treated alike diverge no later than the runs to be explained."""
        return self.limit <= self.at

    def note_if_unsteady(self, a: Run, b: Run) -> None:
        """Note where two runs treated alike diverge: from there on no factor can be accused."""
        place = self.differ(a, b)
        if place is not None:
            self.inquiry.note_unsteady(DivergentRuns(a.id, b.id, place))


def _classes(runs: Sequence[Run], differ: Callable[[Run, Run], Divergence | None]) -> list[list[Run]]:
    groups: list[list[Run]] = []
    for run in runs:
        group = next((one for one in groups if differ(one[0], run) is None), None)
        if group is None:
            groups.append([run])
        else:
            group.append(run)
    return groups
