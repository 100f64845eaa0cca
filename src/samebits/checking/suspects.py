"""A suspect: a factor whose release made runs diverge, and what its runs say about it.

changed     released, it gets another value: the same one in every run that releases it in the same way
left alone  a factor of chance (algorithms, races): each run may have its own bits, so several are compared together
scattering  changed in the same way, and other bits all the same: it is judged as a factor of chance
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from samebits.checking import plan as plans
from samebits.checking.baseline import Baseline
from samebits.checking.evidence import UNCHANGED, Treatment
from samebits.checking.verdict import DivergentRuns, Run
from samebits.factors.catalog import find
from samebits.factors.context import Setting, SiteKey
from samebits.runfolder.spec import RunSpec


@dataclass
class Suspect:
    """A factor whose release made runs diverge, and the runs that speak about it.

    Attributes:
        ways: the treatments that release it, with the specs of such runs.
        divergent: two runs that show its effect; for a factor left alone, two of its own runs.
        scatters: changed in the same way, it gave other bits: threads have an order that nothing changes twice alike.
        proven: the chance that it is innocent, and the limit that this is below; None while it may be innocent.
    """

    name: str
    ways: dict[Treatment, RunSpec]
    runs: list[Run]
    divergent: DivergentRuns
    baseline: Baseline
    scatters: bool = False
    proven: tuple[float, float] | None = None

    @property
    def is_left_alone(self) -> bool:
        return find(self.name).left_alone

    @property
    def released(self) -> RunSpec:
        """The spec of a run in which it is released everywhere."""
        return plans.keeping_nothing(self.runs[0].plan)

    @property
    def is_standing(self) -> bool:
        """Whether its runs diverge before anything is unsteady."""
        return self.divergent.divergence.position < self.baseline.limit

    @property
    def strays(self) -> int:
        """The number of its telling runs that differ from the baseline; left alone, from most of its runs."""
        if not self.is_left_alone:
            return sum(map(self.shows, self.telling))
        return len(self.runs) - max(len(group) for group in self.baseline.classes(self.runs))

    @property
    def telling(self) -> list[Run]:
        """Its runs, without those in which only an innocent line was released."""
        return [run for run in self.runs if not self._setting(run).released or self.shows(run)]

    @property
    def showing_variant(self) -> int:
        """The variant with which a run of it differed from the baseline: other variants may change nothing."""
        shown = (run for run in self.runs if self.baseline.differ(self.baseline.base, run) is not None)
        return self._way(next(shown, self.runs[0]))[1] or plans.RELEASED

    def chance_of_agreeing(self, divergent: DivergentRuns, held: Sequence[Run]) -> float:
        """Return the chance that held runs all agree by luck, if something other than this factor makes runs diverge.

        1 where `divergent` is not two runs with the factor changed in the same way, or the held runs diverge, too.
        """
        released = next((run for run in self.runs if run.id == divergent.a), None)
        alike = [run for run in self.runs if released is not None and self._way(run) == self._way(released)]
        if divergent.b not in [run.id for run in alike] or len(self.baseline.classes_by_the_step(held)) > 1:
            return 1.0
        most = max(map(len, self.baseline.classes_by_the_step(alike)))
        return float(((most + 1) / (len(alike) + 1)) ** (len(held) - 1))

    def add(self, run: Run) -> bool:
        """Add a run with the factor released, and return whether its draws so far are void: it is drawn otherwise now.

        A new way whose result is that of another way, or of no release, is not drawn any more; nor one of our making.
        Runs released in the same way have the same bits; where they do not, whichever way is drawn says no more.
        """
        way, results = self._way(run), self.results().values()
        before = next((earlier for earlier in self.runs if self._way(earlier) == way), None)
        self.runs.append(run)
        if not way[1]:
            return False
        if before is None or self.is_ours(before) or self.is_ours(run):
            if self.is_ours(run) or self.results()[run.id] in {UNCHANGED, *results}:
                self.ways.pop(way, None)
            return self.is_ours(run)
        place = self.baseline.differ(before, run)
        last = max(self.divergent.divergence.position, self.baseline.at)
        self.scatters = place is not None and place.position <= last
        if self.scatters:
            self.ways = {(self.name, 0): self.released}
        else:
            self.baseline.note_if_unsteady(before, run)
        return self.scatters

    def shows(self, run: Run) -> bool:
        """Whether a run diverges from the baseline, and not by a failure of our making."""
        return self.baseline.differ(self.baseline.base, run) is not None and not self.is_ours(run)

    def is_shown_by(self, sites: Sequence[SiteKey]) -> bool:
        """Whether one of its runs in which it was released at these lines only diverges."""
        return any(self._setting(run).released == (*sites,) and self.shows(run) for run in self.runs)

    def results(self) -> dict[int, Hashable]:
        """Return the result of each of its runs, by number; runs that are as the baseline are unchanged."""
        base = [] if self.is_left_alone else [self.baseline.base]
        classes = enumerate(self.baseline.classes([*base, *self.runs]), 0 if base else 1)
        return {run.id: number or UNCHANGED for number, group in classes for run in group}

    def seen(self) -> dict[Treatment, Hashable]:
        """Return the treatment of its first run, which made it suspected, with the result."""
        first = self._way(self.runs[0])
        return {first: self.results()[self.runs[0].id]} if first[1] else {}

    def _way(self, run: Run) -> Treatment:
        return self.name, 0 if self.is_left_alone or self.scatters else self._setting(run).variant

    def is_ours(self, run: Run) -> bool:
        """Whether a run failed in which a line was released alone: two clocks may disagree then."""
        return bool(self._setting(run).released) and not run.succeeded and self.baseline.inquiry.failures_are_ours

    def _setting(self, run: Run) -> Setting:
        return run.plan.settings.get(self.name, Setting())  # missing where the script failed under this treatment
