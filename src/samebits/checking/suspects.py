"""Finding suspects: pin everything, then release one factor at a time; runs that diverge then accuse it.

baseline    runs with everything pinned, which all others of a round are compared with
released    changed on purpose, always in the same way
left alone  factors that choose algorithms: each run has bits of its own, so several are compared together

The likeliest ones are released first, one by one. Unlikely ones are released together, and told apart only where that
makes runs diverge. What was released and changed nothing, alone or together, is acquitted, in every later round that
comes no further than those runs went. Baseline runs that still diverge end the search there: from that place on
no factor can be accused.
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
from samebits.factors.context import Setting
from samebits.runfolder.spec import RunSpec

# Two hash seeds may order a small set alike by luck, and two times may be even: what was seen to enter, and changes
# nothing with one other value, is no acquittal yet.
LUCKY_VARIANTS = (3, 4, 5)
LEFT_ALONE_RUNS = 3
# At least this many steps are looked at after the one at which runs diverged.
MORE_STEPS = 10
# Races show in some runs only: where no other factor is guilty, runs left alone are given another chance.
RARE_RUNS = 6


class Baseline:
    """Runs with everything pinned, a little further than the step at which the runs diverge that are to be explained.

    Runs of earlier rounds that were treated so, and went as far, are among them.

    Attributes:
        step: after which nothing is compared; None where runs go to their end.
        plan: of the first one, which keeps the tensors that differ, to say by how much.
        runs: those made so far.
    """

    def __init__(self, inquiry: Inquiry, at: DivergentRuns) -> None:
        self.inquiry, self._at, place, request = inquiry, at, at.divergence, inquiry.request
        # A process among several may come to its step long after another one has passed the same number.
        ends_there = place.stream not in ("length", "outcome", "end", "product") and not place.process
        self.step = self._last_step(place.step) if ends_there else None
        # What the user asked to vary does not move by itself: held, it may hide what does (workers, a generator).
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
        """Some more than the divergent one: what is drawn shows elsewhere with other values.

        Not beyond the first look, unless they diverge beyond it: then half as many steps again.
        """
        looked = self.inquiry.first[0].stopped_after if self.inquiry.first else divergent
        if self.inquiry.is_short or looked is None:
            return None
        if divergent >= looked:
            return divergent + max(MORE_STEPS, divergent // 2)
        return min(2 * divergent + MORE_STEPS, looked)

    def begin(self) -> Asking[str]:
        """The first one; what later ones do differently is doubt. Why nothing can be tried, as a sentence, or ""."""
        self.runs = self.known(None)
        if not self.runs:
            self.runs = yield from self.inquiry.runs_of([self.plan])
            self.keep(None, self.runs)
        for run in self.runs[1:]:
            self.doubt(self.base, run)
        self.plan = replace(self.plan, settings=self.base.plan.settings, witness=self.base.plan.witness)
        if not self.base.succeeded and self._at.divergence.stream != "outcome":
            return f"with everything pinned, run {self.base.id} {self.base.ending}, see {self.base.path}"
        return ""

    @property
    def base(self) -> Run:
        """The run that all others are compared with."""
        return self.runs[0]

    @property
    def spare(self) -> RunSpec:
        """The spec of further baseline runs: keeps no tensors."""
        return plans.keeping_nothing(self.plan)

    def known(self, what: Hashable) -> list[Run]:
        """Runs that were released so, or pinned (None), in this round or an earlier one, and went far enough."""
        runs = self.inquiry.known.get((self._pins, what), [])
        ends = [run.stopped_after for run in runs]
        return list(runs) if all(end is None or (self.step is not None and end >= self.step) for end in ends) else []

    def keep(self, what: Hashable, runs: Sequence[Run]) -> None:
        """Keep runs for later rounds."""
        self.inquiry.known[self._pins, what] = list(runs)

    def add(self, run: Run) -> None:
        """Add a baseline run."""
        self.runs.append(run)
        self.keep(None, self.runs)
        self.doubt(self.base, run)

    def entries(self, name: str) -> tuple[Entry, ...]:
        """The lines at which a factor entered these runs."""
        return self.base.facts.entries.get(name, ())

    # ---- where runs differ

    def differ(self, a: Run, b: Run) -> Divergence | None:
        """Where two runs differ, before anything is unsteady and not after the last step."""
        place = self._by_the_step(a, b)
        return None if place is None or place.position >= self.limit else place

    def _by_the_step(self, a: Run, b: Run) -> Divergence | None:
        place = self.inquiry.compare(a, b)
        return None if place is None or (self.step is not None and place.step > self.step) else place

    def classes(self, runs: Sequence[Run]) -> list[list[Run]]:
        """The runs, those with the same bits together."""
        return _classes(runs, self.differ)

    def classes_by_the_step(self, runs: Sequence[Run]) -> list[list[Run]]:
        """The same, by all that they did until the last step, unsteady or not."""
        return _classes(runs, self._by_the_step)

    def results(self) -> tuple[int, int]:
        """How many different results these runs gave, and how many runs that were."""
        return len(self.classes_by_the_step(self.runs)), len(self.runs)

    @property
    def limit(self) -> Position:
        """The earliest position at which runs treated alike diverge; nothing after it counts."""
        unsteady = self.inquiry.unsteady
        return (2**62, 0) if unsteady is None else unsteady.divergence.position

    @property
    def is_hopeless(self) -> bool:
        """Whether runs treated alike diverge no later than those that are to be explained."""
        return self.limit <= self._at.divergence.position

    def doubt(self, a: Run, b: Run) -> None:
        """Two runs treated alike: from where they diverge, no factor can be accused."""
        place = self.differ(a, b)
        if place is not None:
            self.inquiry.doubt(DivergentRuns(a.id, b.id, place))


def _classes(runs: Sequence[Run], differ: Callable[[Run, Run], Divergence | None]) -> list[list[Run]]:
    found: list[list[Run]] = []
    for run in runs:
        own = next((one for one in found if differ(one[0], run) is None), None)
        if own is None:
            found.append([run])
        else:
            own.append(run)
    return found


@dataclass(frozen=True)
class Release:
    """Factors that are released together, in `count` runs: each gets another value, or is left alone (variant 0)."""

    names: tuple[str, ...]
    variant: int = plans.RELEASED
    count: int = 1

    @property
    def what(self) -> Hashable:
        """What is released, in however many runs."""
        return self.names, self.variant

    @property
    def halves(self) -> list[Release]:
        middle, count = len(self.names) // 2, min(self.count, LEFT_ALONE_RUNS)
        return [replace(self, names=half, count=count) for half in (self.names[:middle], self.names[middle:])]


@dataclass
class Suspect:
    """A factor whose release made runs diverge, and the runs that speak about it.

    Attributes:
        ways: in which it is released, with the plans of such runs.
        divergent: two runs that show it; of a factor left alone, two of its own.
        proven: the chance that it is innocent, and the limit below which that had to be; None where it may be.
    """

    name: str
    ways: dict[Treatment, RunSpec]
    runs: list[Run]
    divergent: DivergentRuns
    baseline: Baseline
    proven: tuple[float, float] | None = None

    @property
    def is_left_alone(self) -> bool:
        return find(self.name).selects_algorithm

    @property
    def stands(self) -> bool:
        """Whether it still differs before anything is unsteady."""
        return self.divergent.divergence.position < self.baseline.limit

    @property
    def strays(self) -> int:
        """How many runs with it released are not as the baseline; left alone, not as most of them."""
        if not self.is_left_alone:
            return sum(self.baseline.differ(self.baseline.base, run) is not None for run in self.runs)
        return len(self.runs) - max(len(one) for one in self.baseline.classes(self.runs))

    @property
    def showing(self) -> int:
        """The other value that it had in a run which is not as the baseline: another one may come out alike."""
        shown = (run for run in self.runs if self.baseline.differ(self.baseline.base, run) is not None)
        return self._way(next(shown, self.runs[0]))[1] or plans.RELEASED

    def chance_of_agreeing(self, divergent: DivergentRuns, held: Sequence[Run]) -> float:
        """The chance that runs in which it is held agree so often, where others that diverge do so by other doing.

        1 where the two that diverge are not two in which it was changed in the same way, or those held diverge, too.
        """
        own = next((run for run in self.runs if run.id == divergent.a), None)
        alike = [run for run in self.runs if own is not None and self._way(run) == self._way(own)]
        if divergent.b not in [run.id for run in alike] or len(self.baseline.classes_by_the_step(held)) > 1:
            return 1.0
        most = max(map(len, self.baseline.classes_by_the_step(alike)))
        return float(((most + 1) / (len(alike) + 1)) ** (len(held) - 1))

    def add(self, run: Run) -> None:
        """One more run with it released: changed in the same way as an earlier one, it has the same bits.

        A way that is new and comes out as another one does, or as if nothing had been released, is not drawn any more.
        """
        way, known = self._way(run), self.results().values()
        before = next((one for one in self.runs if self._way(one) == way), None)
        self.runs.append(run)
        if self.is_left_alone:
            return
        if before is not None:
            self.baseline.doubt(before, run)
        elif self.results()[run.id] in {UNCHANGED, *known}:
            self.ways.pop(way, None)

    def results(self) -> dict[int, Hashable]:
        """What came out of each of its runs, by number: those that are as the baseline are unchanged."""
        base = [] if self.is_left_alone else [self.baseline.base]
        classes = enumerate(self.baseline.classes([*base, *self.runs]), 0 if base else 1)
        return {run.id: number or UNCHANGED for number, own in classes for run in own}

    def seen(self) -> dict[Treatment, Hashable]:
        """The way in which its first run was released, which made it suspected, and what came out."""
        return {} if self.is_left_alone else {self._way(self.runs[0]): self.results()[self.runs[0].id]}

    def _way(self, run: Run) -> Treatment:
        own = run.plan.settings.get(self.name, Setting())  # left out where the script did not survive it
        return self.name, 0 if self.is_left_alone else own.variant


class Lineup:
    """The suspects of one round, the likeliest group first, without the causes that are known already (`pins`).

    Attributes:
        queue: still to be released, in this order.
        found: those that made runs diverge, and wait for their turn: the remedy of another one may acquit them.
        acquitted: those that were released and changed nothing.
    """

    def __init__(self, baseline: Baseline, names: Collection[str], pins: Sequence[str]) -> None:
        self._baseline, self._inquiry = baseline, baseline.inquiry
        self._names, self._pins = list(names), tuple(pins)
        self.queue: list[Release] = []
        self.found: list[Suspect] = []
        self.acquitted: list[str] = []
        self._rare: list[Release] = []

    def begin(self) -> None:
        """Put them in order, by what the baseline has seen."""
        pinned = set(self._baseline.plan.named("pinned"))
        names = [name for name in self._names if name in pinned and name not in self._pins]
        names = list(filter(self._baseline.base.facts.has_use_for, names))
        likely = [name for name in names if name in self._inquiry.request.vary or self._is_likely(name)]
        others = [name for name in names if name not in likely]
        lucky = tuple(name for name in likely if find(name).varies_between_runs and not _is_algorithm(name))
        self.queue = [
            *(Release((name,), 0, LEFT_ALONE_RUNS) if _is_algorithm(name) else Release((name,)) for name in likely),
            Release(tuple(name for name in others if not _is_algorithm(name))),
            *(Release(lucky, variant) for variant in LUCKY_VARIANTS),
            Release(tuple(filter(_is_algorithm, others)), 0, LEFT_ALONE_RUNS),
        ]

    def next(self, accused: Collection[str], *, likely_only: bool = False) -> Asking[Suspect | None]:
        """The next factor that makes runs diverge when released; None when none is left, or the base is unsteady.

        With `likely_only`, those that are released together are left for later.
        """
        while not self._baseline.is_hopeless:
            if self.found:
                return self.found.pop(0)
            if not self.queue and self._rare and not accused:
                self.queue = [self._once_more()]
            known = {*self._pins, *accused}
            queue = [replace(one, names=tuple(name for name in one.names if name not in known)) for one in self.queue]
            self.queue = [one for one in queue if one.names]
            if not self.queue or (likely_only and not self.is_anyone_likely):
                return None
            most, batch = self._inquiry.room, [self.queue.pop(0)]
            # Beside a likely one goes another one; what is unlikely need not be known yet.
            while self.queue and len(self.queue[0].names) == 1:
                if sum(one.count for one in [*batch, self.queue[0]]) > most:
                    break
                batch.append(self.queue.pop(0))
            yield from self._let_go(batch)
        return None

    def _once_more(self) -> Release:
        """One that came out alike, in more runs; sooner where all of them differ from the baseline than where none."""
        ended = [self._baseline.known(one.what)[0] for one in self._rare]
        changed = [self._baseline.differ(self._baseline.base, run) is not None for run in ended]
        return replace(self._rare.pop(changed.index(True) if any(changed) else 0), count=RARE_RUNS)

    @property
    def is_anyone_likely(self) -> bool:
        """Whether the next one is released alone."""
        return bool(self.found) or any(len(one.names) == 1 for one in self.queue[:1])

    @property
    def waiting(self) -> list[str]:
        """Factors that were to be released, and were not."""
        return list(dict.fromkeys(name for one in self.queue for name in one.names if name not in self.acquitted))

    def _is_likely(self, name: str) -> bool:
        """Whether it was seen to enter on a line of the user's, or can be read in the code."""
        factor = find(name)
        # The program asked for an algorithm that another run may not choose, and the pin did not let it.
        if factor.has_sites or factor.selects_algorithm:
            return bool(self._baseline.entries(name))
        return not factor.found_statically or not self._is_explained(name)

    def _is_explained(self, name: str) -> bool:
        """Whether a cause that is known already enters at every line that was read for this factor."""
        lines = self._baseline.base.facts.read_lines
        known = {entry.site.key for pin in self._pins for entry in lines.get(pin, ())}
        return known.issuperset(entry.site.key for entry in lines.get(name, ()))

    def _let_go(self, batch: Sequence[Release]) -> Asking[None]:
        """Make the runs of these releases, and put what they show where it belongs."""
        baseline, again = self._baseline, list[Release]()
        known = [baseline.known(release.what) for release in batch]
        lacking = [release.count - len(runs) for release, runs in zip(batch, known, strict=True)]
        plans_of = [self._plan(one) for one, count in zip(batch, lacking, strict=True) for _ in range(count)]
        made = iter((yield from self._inquiry.runs_of(plans_of)))
        for release, before, count in zip(batch, known, lacking, strict=True):
            runs = [*before, *islice(made, max(count, 0))]
            baseline.keep(release.what, runs)
            base = baseline.base if release.variant else runs[0]
            others = [run for run in runs if run is not base]
            apart = [(run, place) for run in others if (place := baseline.differ(base, run)) is not None]
            names = [name for name in release.names if release.variant == 0 or name in runs[0].plan.named("varied")]
            if not apart:
                self.acquitted += names
                self._rare += [release] if release.count == LEFT_ALONE_RUNS else []
            elif len(release.names) > 1:
                again += release.halves
            # Beside it another variant of the same factor may have shown it already.
            elif names and names[0] not in [one.name for one in self.found]:
                run, place = apart[0]
                divergent = DivergentRuns(base.id, run.id, place)
                self.found.append(
                    Suspect(names[0], self._ways(names[0], release.variant), list(runs), divergent, baseline)
                )
        self.queue = [*again, *self.queue]

    def _ways(self, name: str, variant: int) -> dict[Treatment, RunSpec]:
        """How it is released in further runs: what moves by itself in another way, too, with other bits."""
        variants = (variant, plans.RELEASED_OTHERWISE) if variant and find(name).varies_between_runs else (variant,)
        return {(name, one): plans.keeping_nothing(self._plan(Release((name,), one))) for one in variants}

    def _plan(self, release: Release) -> RunSpec:
        pinned = self._baseline.plan if release.variant else self._baseline.spare
        return plans.released_run(pinned, release.names, release.variant)


def _is_algorithm(name: str) -> bool:
    return find(name).selects_algorithm
