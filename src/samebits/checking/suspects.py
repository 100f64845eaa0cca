"""Who is suspected: factors are let go, the likeliest ones first and singly, and runs that diverge then accuse them.

released    changed on purpose, always in the same way
left alone  factors that choose algorithms: each run has bits of its own, so several are compared together

Unlikely ones are let go in company, and told apart only where that makes runs diverge. What was let go and changed
nothing, singly or in company, is acquitted, in every later round that comes no further than those runs went.
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
# Races show in some runs only: where no other factor is guilty, runs left alone are given another chance.
RARE_RUNS = 6


@dataclass(frozen=True)
class Release:
    """Factors that are let go together.

    Attributes:
        names: of the factors.
        variant: the other value that they get; 0 leaves them alone.
        count: how many runs that takes.
    """

    names: tuple[str, ...]
    variant: int = plans.RELEASED
    count: int = 1

    @property
    def halves(self) -> list[Release]:
        middle = len(self.names) // 2
        return [replace(self, names=self.names[:middle]), replace(self, names=self.names[middle:])]


@dataclass
class Suspect:
    """A factor whose release made runs diverge, and the runs that speak about it.

    Attributes:
        name: the factor.
        plan: of its released runs.
        runs: those made so far.
        place: where the first of them leaves the held runs; of a factor left alone, another one like it.
        divergent: two runs that show it.
        held: the runs that its own are compared with.
        proven: the chance that it is innocent, and the limit below which that had to be; None where it may be.
    """

    name: str
    plan: RunSpec
    runs: list[Run]
    place: Divergence
    divergent: DivergentRuns
    held: Held
    proven: tuple[float, float] | None = None

    @property
    def is_left_alone(self) -> bool:
        return find(self.name).selects_algorithm

    @property
    def stands(self) -> bool:
        """Whether it still differs from the held runs before anything is unsteady."""
        return self.place.position < self.held.limit()

    @property
    def strays(self) -> int:
        """How many runs with it released are not as the held ones; left alone, not as most of them."""
        if not self.is_left_alone:
            return sum(self.held.differ(self.held.base, run) is not None for run in self.runs)
        return len(self.runs) - max(len(one) for one in self.held.classes(self.runs))


class Lineup:
    """The suspects of one round, and those found guilty of nothing yet.

    Args:
        held: the runs with everything pinned.
        names: factors that can be guilty, the likeliest group first.
        pins: causes known already.

    Attributes:
        queue: still to be let go, in this order.
        found: those that made runs diverge, and wait for their turn: the remedy of another one may acquit them.
        acquitted: those that were let go and changed nothing.
    """

    def __init__(self, held: Held, names: Collection[str], pins: Sequence[str]) -> None:
        self._held, self._inquiry = held, held.inquiry
        self._names, self._pins = list(names), tuple(pins)
        self.queue: list[Release] = []
        self.found: list[Suspect] = []
        self.acquitted: list[str] = []
        self._rare: list[str] = []

    def begin(self) -> None:
        """Put them in order, by what the held runs have seen."""
        pinned = set(self._held.plan.named("pinned"))
        names = [name for name in self._names if name in pinned and name not in self._pins]
        used = self._held.base.facts.used
        names = [name for name in names if used is None or used.issuperset(_needs(name))]
        likely = [name for name in names if name in self._inquiry.request.vary or self._is_likely(name)]
        others = [name for name in names if name not in likely]
        lucky = [name for name in names if find(name).found_statically and not self._is_explained(name)]
        self.queue = [
            *(self._single(name) for name in likely),
            Release(tuple(name for name in others if not find(name).selects_algorithm)),
            *(Release(tuple(lucky), variant) for variant in LUCKY_VARIANTS),
            Release(tuple(name for name in others if find(name).selects_algorithm), 0, LEFT_ALONE_RUNS),
        ]

    def next(self, accused: Collection[str]) -> Asking[Suspect | None]:
        """The next factor that makes runs diverge when released; None when none is left, or the base is unsteady."""
        while not self._held.is_hopeless():
            if self.found:
                return self.found.pop(0)
            if not self.queue and self._rare and not accused:
                self.queue, self._rare = [Release(tuple(self._rare), 0, RARE_RUNS)], []
            self.queue = [own for one in self.queue if (own := self._without(one, accused)).names]
            if not self.queue:
                return None
            most, batch = self._inquiry.room(), list[Release]()
            while self.queue and (not batch or sum(one.count for one in [*batch, self.queue[0]]) <= most):
                # Beside a likely one goes another one; what is unlikely need not be known yet.
                if batch and len(self.queue[0].names) > 1:
                    break
                batch.append(self.queue.pop(0))
            yield from self._let_go(batch)
        return None

    @property
    def is_anyone_likely(self) -> bool:
        """Whether the next one is let go by itself."""
        return bool(self.found) or any(len(one.names) == 1 for one in self.queue[:1])

    @property
    def waiting(self) -> list[str]:
        """Factors that were to be let go, and were not."""
        return list(dict.fromkeys(name for one in self.queue for name in one.names if name not in self.acquitted))

    def _single(self, name: str) -> Release:
        return Release((name,), 0, LEFT_ALONE_RUNS) if find(name).selects_algorithm else Release((name,))

    def _without(self, release: Release, accused: Collection[str]) -> Release:
        known = {*self._pins, *accused, *(one.name for one in self.found)}
        return replace(release, names=tuple(name for name in release.names if name not in known))

    def _is_likely(self, name: str) -> bool:
        """Whether it was seen to enter on a line of the user's, or can be read in the code."""
        factor = find(name)
        if factor.selects_algorithm:
            return False
        if factor.has_sites:
            return bool(self._held.entries(name))
        return not factor.found_statically or not self._is_explained(name)

    def _is_explained(self, name: str) -> bool:
        """Whether a cause that is known already enters at every line that was read for this factor."""
        lines = self._held.base.facts.read_lines
        known = {entry.site.key for pin in self._pins for entry in lines.get(pin, ())}
        return known.issuperset(entry.site.key for entry in lines.get(name, ()))

    def _let_go(self, batch: Sequence[Release]) -> Asking[None]:
        """Make the runs of these releases, and put what they show where it belongs."""
        known = [self._held.known(release) for release in batch]
        missing = [release for release, runs in zip(batch, known, strict=True) if not runs]
        made = yield from self._inquiry.runs_of([self._plan(one) for one in missing for _ in range(one.count)])
        left, again = list(made), list[Release]()
        for release, runs in zip(batch, known, strict=True):
            if not runs:
                runs, left = left[: release.count], left[release.count :]
                self._held.keep(release, runs)
            place = self._scatter(runs) if release.variant == 0 else self._held.differ(self._held.base, runs[0])
            names = [name for name in release.names if release.variant == 0 or name in runs[0].plan.named("varied")]
            if place is None:
                self.acquitted += names
                self._rare += names if release.count == LEFT_ALONE_RUNS else []
            elif len(release.names) > 1:
                again += release.halves
            # Beside it another variant of the same factor may have shown it already.
            elif names and names[0] not in [one.name for one in self.found]:
                self.found.append(self._suspect(release, runs, place))
        self.queue = [*again, *self.queue]

    def _plan(self, release: Release) -> RunSpec:
        if release.variant == 0:
            return plans.natural_run(self._held.spare, release.names)
        return plans.released_run(self._held.plan, release.names, release.variant)

    def _scatter(self, runs: Sequence[Run]) -> Divergence | None:
        """Where runs that were left alone differ among one another."""
        return next((place for run in runs[1:] if (place := self._held.differ(runs[0], run)) is not None), None)

    def _suspect(self, release: Release, runs: Sequence[Run], place: Divergence) -> Suspect:
        plan = replace(runs[0].plan, keep_step=None, keep_streams=(), keep_names=())
        base = runs[0] if release.variant == 0 else self._held.base
        other = next(run for run in runs if run is not base and self._held.differ(base, run) is not None)
        return Suspect(release.names[0], plan, list(runs), place, DivergentRuns(base.id, other.id, place), self._held)


def _needs(name: str) -> set[str]:
    # Whether a loader fetches is not noted; what asks for data-workers has one.
    return set(find(name).needs) - {"loader"}
