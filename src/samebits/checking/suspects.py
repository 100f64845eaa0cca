"""Who is suspected: one factor at a time is let go, the likeliest one first, and runs that diverge then accuse it.

released    one factor changed on purpose, always in the same way
left alone  factors that choose algorithms: each run has bits of its own, so several are compared together
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from samebits.checking import plan as plans
from samebits.checking.asking import Asking
from samebits.checking.held import Held
from samebits.checking.verdict import DivergentRuns, Run
from samebits.comparison.locate import Divergence
from samebits.factors.catalog import find
from samebits.runfolder.spec import RunSpec

# Two hash seeds may order a small set alike by luck, so one that changes nothing is no acquittal yet.
LUCKY_VARIANTS = (3, 4, 5)
LEFT_ALONE_RUNS = 3
RARE_RUNS = 6


@dataclass
class Suspect:
    """A factor whose release made runs diverge, and the runs that speak about it.

    Attributes:
        name: the factor.
        plan: of its released runs.
        runs: those made so far.
        place: where the first of them leaves the held runs; of a factor left alone, another one like it.
        divergent: two runs that show it.
        tried: how many factors had been released by then, this one included: each could have been accused instead.
    """

    name: str
    plan: RunSpec
    runs: list[Run]
    place: Divergence
    divergent: DivergentRuns
    tried: int

    @property
    def is_left_alone(self) -> bool:
        return find(self.name).selects_algorithm


class Lineup:
    """The suspects of one round, and those found guilty of nothing yet.

    Args:
        held: the runs with everything pinned.
        names: factors that can be guilty, the likeliest group first.
        pins: causes known already.
        tried: how many factors earlier rounds have released.

    Attributes:
        candidates: still to be released, in this order.
        tried: how many factors were released.
    """

    def __init__(self, held: Held, names: Collection[str], pins: Sequence[str], tried: int) -> None:
        self._held, self._inquiry = held, held.inquiry
        self._names, self._pins, self.tried = list(names), tuple(pins), tried
        self.candidates: list[str] = []
        self._rare: list[str] = []
        self._has_begun = False

    def begin(self) -> None:
        """Put them in order, by what the held runs have seen."""
        self.candidates = self._ordered()

    def next(self, *, is_anyone_accused: bool) -> Asking[Suspect | None]:
        """The next factor that makes runs diverge when released; None when none is left, or the base is unsteady."""
        while self.candidates and not self._held.is_hopeless():
            room = self._inquiry.room()
            # Beside the likeliest ones goes a run that is needed whoever is guilty.
            is_first = room > 1 and not self._has_begun and not find(self.candidates[0]).selects_algorithm
            self._has_begun = True
            most = room - 1 if is_first else room
            names, self.candidates = self.candidates[:most], self.candidates[most:]
            found = yield from self._released(names, [self._held.spare] if is_first else [])
            if found:
                # The others that differ wait for their turn: the remedy of the first may acquit them.
                self.candidates = [*(one.name for one in found[1:]), *self.candidates]
                self.tried -= len(found) - 1
                return found[0]
        return None if is_anyone_accused else (yield from self._rarely_seen())

    def _rarely_seen(self) -> Asking[Suspect | None]:
        """Races show in some runs only: where no other factor is guilty, runs left alone are given another chance."""
        again, self._rare = self._rare, []
        for name in [] if self._held.is_hopeless() else again:
            suspect = yield from self._left_alone(name, RARE_RUNS)
            if suspect is not None:
                return suspect
        return None

    def _ordered(self) -> list[str]:
        """What was asked for, what was seen to enter, what can only be read in the code, modes, and all others."""
        pinned = set(self._held.plan.named("pinned"))
        names = [name for name in self._names if name in pinned and name not in self._pins]
        used = self._held.base.facts.used
        possible = [name for name in names if used is None or used.issuperset(_needs(name))]
        vary = self._inquiry.request.vary
        return sorted(possible, key=lambda name: (name not in vary, self._unlikeliness(name)))

    def _unlikeliness(self, name: str) -> int:
        factor, facts = find(name), self._held.base.facts
        if factor.selects_algorithm:
            return 2
        if factor.has_sites:
            # Entered by no line of the user's: possible, for what libraries do on their own, and tried last.
            return 0 if self._held.entries(name) else 3
        return 1 if factor.found_statically and (not facts.read_lines.get(name) or self._is_explained(name)) else 0

    def _is_explained(self, name: str) -> bool:
        """Whether a cause that is known already enters at every line that was read for this factor."""
        lines = self._held.base.facts.read_lines
        known = {entry.site.key for pin in self._pins for entry in lines.get(pin, ())}
        return known.issuperset(entry.site.key for entry in lines.get(name, ()))

    def _released(self, names: Sequence[str], beside: Sequence[RunSpec] = ()) -> Asking[list[Suspect]]:
        """Those of these factors that make runs diverge, the earliest in the catalogue's order of suspicion first.

        Args:
            names: of the factors.
            beside: held runs to be made at the same time.
        """
        found: list[Suspect] = []
        values = [name for name in names if not find(name).selects_algorithm]
        wanted = [plans.released_run(self._held.plan, name, plans.RELEASED) for name in values]
        runs = yield from self._inquiry.runs_of([*wanted, *beside])
        for run in runs[len(values) :]:
            self._held.add(run)
        for name, run in zip(values, runs[: len(values)], strict=True):
            self.tried += 1
            suspect = self._suspect(name, run)
            if suspect is None:
                suspect = yield from self._tried_again(name)
            if suspect is not None:
                found.append(suspect)
        for name in names:
            if find(name).selects_algorithm:
                self.tried += 1
                suspect = yield from self._left_alone(name)
                if suspect is not None:
                    found.append(suspect)
        return found

    def _suspect(self, name: str, run: Run) -> Suspect | None:
        if name not in run.plan.named("varied"):  # released, the script failed: that treatment is left out
            return None
        place = self._held.differ(self._held.base, run)
        if place is None:
            return None
        plan = replace(run.plan, keep_step=None, keep_streams=(), keep_names=())
        return Suspect(name, plan, [run], place, DivergentRuns(self._held.base.id, run.id, place), self.tried)

    def _tried_again(self, name: str) -> Asking[Suspect | None]:
        if not find(name).found_statically or self._is_explained(name):
            return None
        for variant in LUCKY_VARIANTS:
            (run,) = yield from self._inquiry.runs_of([plans.released_run(self._held.plan, name, variant)])
            self.tried += 1
            suspect = self._suspect(name, run)
            if suspect is not None:
                return suspect
        return None

    def _left_alone(self, name: str, count: int = LEFT_ALONE_RUNS) -> Asking[Suspect | None]:
        """A factor that chooses algorithms: each has bits of its own, so runs left alone are compared together."""
        plan = plans.natural_run(self._held.spare, name)
        runs = yield from self._inquiry.runs_of([plan] * count)
        other = next((run for run in runs[1:] if self._held.differ(runs[0], run) is not None), None)
        if other is None:
            self._rare.append(name)
            return None
        place = self._held.differ(runs[0], other)
        assert place is not None
        return Suspect(name, plan, list(runs), place, DivergentRuns(runs[0].id, other.id, place), self.tried)


def _needs(name: str) -> set[str]:
    # Whether a loader fetches is not noted; what asks for data-workers has one.
    return set(find(name).needs) - {"loader"}
