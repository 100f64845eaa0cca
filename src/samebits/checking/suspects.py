"""The search for suspects: everything is pinned, then one factor at a time is released; runs that diverge accuse it.

baseline    runs with everything pinned, which all other runs of a round are compared with
released    factors that are changed on purpose, always in the same way
left alone  factors of chance (algorithms, races): each run may have its own bits, so several are compared together

The likeliest factors are released first, one by one. Unlikely ones are released together, and one by one only where
that makes runs diverge. A factor that was released and changed nothing, alone or together with others, is acquitted,
also in later rounds that go no further than its runs. Baseline runs that still diverge end the search: from that place
on no factor can be accused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from samebits.checking import plan as plans
from samebits.checking.evidence import UNCHANGED, Treatment
from samebits.checking.facts import Entry
from samebits.checking.inquiry import Asking, Inquiry
from samebits.checking.verdict import DivergentRuns, Run
from samebits.comparison.locate import Divergence, Position
from samebits.factors.catalog import find
from samebits.factors.context import Setting, SiteKey
from samebits.runfolder.spec import RunSpec

# Two hash seeds may order a small set alike by luck, and two times may both be even: a factor that was seen to enter is
# not acquitted yet when one other value changes nothing.
LUCKY_VARIANTS = (3, 4, 5)
LEFT_ALONE_RUNS = 3
# At least this many steps are compared after the one at which runs diverged, unless the look ends before.
MORE_STEPS = 10
# Races show in some runs only: where no other factor is guilty, this many runs are left alone.
RARE_RUNS = 6


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
