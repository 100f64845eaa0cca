"""The search for suspects: one factor at a time is released; runs that diverge accuse it.

The likeliest factors are released first, one by one. Unlikely ones are released together, and one by one only where
that makes runs diverge. A factor that was released and changed nothing, alone or together with others, is acquitted,
also in later rounds that go no further than its runs.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from samebits.checking import plan as plans
from samebits.checking.baseline import Baseline
from samebits.checking.evidence import Treatment
from samebits.checking.inquiry import Asking
from samebits.checking.suspects import Suspect
from samebits.checking.verdict import DivergentRuns
from samebits.factors.catalog import find
from samebits.runfolder.spec import RunSpec

# Two hash seeds may order a small set alike by luck, and two times may both be even: a factor that was seen to enter is
# not acquitted yet when one other value changes nothing.
LUCKY_VARIANTS = (3, 4, 5)
LEFT_ALONE_RUNS = 3
# Races show in some runs only: where no other factor is guilty, this many runs are left alone.
RARE_RUNS = 6


@dataclass(frozen=True)
class Release:
    """Factors released together, in `count` runs: each factor gets another value, or is left alone (variant 0)."""

    names: tuple[str, ...]
    variant: int = plans.RELEASED
    count: int = 1

    @property
    def released_key(self) -> Hashable:
        """The released factors and their variant, as a key for runs that release them."""
        return self.names, self.variant

    @property
    def halves(self) -> list[Release]:
        middle, count = len(self.names) // 2, min(self.count, LEFT_ALONE_RUNS)
        return [replace(self, names=half, count=count) for half in (self.names[:middle], self.names[middle:])]


class Lineup:
    """The suspects of one round, the likeliest group first, without the causes that are known already (`pins`).

    Attributes:
        queue: the releases still to be made, in this order.
        found: suspects that made runs diverge and wait for their turn: the remedy of another one may acquit them.
        acquitted: factors that were released and changed nothing.
    """

    def __init__(self, baseline: Baseline, names: Collection[str], pins: Sequence[str]) -> None:
        self._baseline, self._inquiry = baseline, baseline.inquiry
        self._names, self._pins = list(names), tuple(pins)
        self.queue: list[Release] = []
        self.found: list[Suspect] = []
        self.acquitted: list[str] = []
        self._retries: list[Release] = []

    def begin(self) -> None:
        """Put the factors in order, by what the baseline has seen."""
        pinned = set(self._baseline.plan.named("pinned"))
        names = [name for name in self._names if name in pinned and name not in self._pins]
        names = list(filter(self._baseline.base.facts.has_use_for, names))
        likely = [name for name in names if name in self._inquiry.request.vary or self._is_likely(name)]
        others = [name for name in names if name not in likely]
        lucky = tuple(name for name in likely if find(name).varies_between_runs and not _is_chance(name))
        self.queue = [
            *(Release((name,), 0, LEFT_ALONE_RUNS) if _is_chance(name) else Release((name,)) for name in likely),
            Release(tuple(name for name in others if not _is_chance(name))),
            *(Release(lucky, variant) for variant in LUCKY_VARIANTS),
            Release(tuple(filter(_is_chance, others)), 0, LEFT_ALONE_RUNS),
        ]

    def next(self, accused: Collection[str], *, likely_only: bool = False) -> Asking[Suspect | None]:
        """Return the next factor that makes runs diverge when released; None if none is left, or the base is unsteady.

        With `likely_only`, factors that are released together are left for later.
        """
        while not self._baseline.is_hopeless:
            if self.found:
                return self.found.pop(0)
            if not self.queue and self._retries and not accused:
                self.queue = [self._once_more()]
            guilty = {*self._pins, *accused}
            queue = [replace(one, names=tuple(name for name in one.names if name not in guilty)) for one in self.queue]
            self.queue = [one for one in queue if one.names]
            if not self.queue or (likely_only and not self.is_anyone_likely):
                return None
            most, batch = self._inquiry.room, [self.queue.pop(0)]
            # Another likely factor is released at the same time; unlikely factors can wait.
            while self.queue and len(self.queue[0].names) == 1:
                if sum(one.count for one in [*batch, self.queue[0]]) > most:
                    break
                batch.append(self.queue.pop(0))
            yield from self._make_releases(batch)
        return None

    def _once_more(self) -> Release:
        """Return a release whose runs came out alike, to be made in more runs; one unlike the baseline comes first."""
        ended = [self._baseline.known(release.released_key)[0] for release in self._retries]
        changed = [self._baseline.differ(self._baseline.base, run) is not None for run in ended]
        return replace(self._retries.pop(changed.index(True) if any(changed) else 0), count=RARE_RUNS)

    @property
    def is_anyone_likely(self) -> bool:
        """Whether a suspect waits, or the next factor is released alone."""
        return bool(self.found) or any(len(one.names) == 1 for one in self.queue[:1])

    @property
    def waiting(self) -> list[str]:
        """The factors that were to be released, and were not."""
        return list(dict.fromkeys(name for one in self.queue for name in one.names if name not in self.acquitted))

    def _is_likely(self, name: str) -> bool:
        """Whether a factor was seen to enter on a line of the user's, was found in the code, or can enter unseen."""
        factor = find(name)
        # Entries of an algorithm: the program asked for one that another run may not choose, and the pin prevented it.
        if factor.has_sites or factor.left_alone:
            return bool(self._baseline.entries(name))
        return not factor.found_statically or not self._is_explained(name)

    def _is_explained(self, name: str) -> bool:
        """Whether a known cause enters at every line that was read for this factor, if any was."""
        lines = self._baseline.base.facts.read_lines
        known = {entry.site.key for pin in self._pins for entry in lines.get(pin, ())}
        return known.issuperset(entry.site.key for entry in lines.get(name, ()))

    def _make_releases(self, batch: Sequence[Release]) -> Asking[None]:
        """Make the runs of these releases; their factors are then acquitted, suspected, or queued in halves."""
        baseline, halves = self._baseline, list[Release]()
        earlier = [baseline.known(release.released_key) for release in batch]
        lacking = [release.count - len(runs) for release, runs in zip(batch, earlier, strict=True)]
        plans_of = [self._plan(one) for one, count in zip(batch, lacking, strict=True) for _ in range(count)]
        made = iter((yield from self._inquiry.runs_of(plans_of)))
        for release, reused, count in zip(batch, earlier, lacking, strict=True):
            runs = [*reused, *islice(made, max(count, 0))]
            baseline.keep(release.released_key, runs)
            base = baseline.base if release.variant else runs[0]
            others = [run for run in runs if run is not base]
            apart = [(run, place) for run in others if (place := baseline.differ(base, run)) is not None]
            names = [name for name in release.names if release.variant == 0 or name in runs[0].plan.named("varied")]
            if not apart:
                self.acquitted += names
                self._retries += [release] if release.count == LEFT_ALONE_RUNS else []
            elif len(release.names) > 1:
                halves += release.halves
            # Another variant of the same factor, made at the same time, may have shown it already.
            elif names and names[0] not in [one.name for one in self.found]:
                run, place = apart[0]
                divergent = DivergentRuns(base.id, run.id, place)
                self.found.append(
                    Suspect(names[0], self._ways(names[0], release.variant), list(runs), divergent, baseline)
                )
        self.queue = [*halves, *self.queue]

    def _ways(self, name: str, variant: int) -> dict[Treatment, RunSpec]:
        """Return the treatments of further runs: two ways, with different bits, for a factor that changes by itself.

        Where it has a single line beside libraries, that line alone is released in the second way.
        """
        ways = {(name, variant): plans.keeping_nothing(self._plan(Release((name,), variant)))}
        if variant and find(name).varies_between_runs:
            spare, line, second = self._baseline.spare, self._baseline.only_line(name), plans.RELEASED_OTHERWISE
            whole = plans.released_run(spare, [name], second)
            ways[name, second] = plans.sites_released_run(spare, name, line, second) if line else whole
        return ways

    def _plan(self, release: Release) -> RunSpec:
        pinned = self._baseline.plan if release.variant else self._baseline.spare
        return plans.released_run(pinned, release.names, release.variant)


def _is_chance(name: str) -> bool:
    return find(name).left_alone
