"""Why runs diverge: everything is held still, then one factor at a time is let go, as often as it takes to be sure.

    held        everything that can move is pinned
    released    one factor changed on purpose, always in the same way; factors that choose algorithms are left alone
    remedy      the causes known so far pinned, and nothing else: first up to the divergent step, then to the end

Runs end just after the divergent step, but for two that show that the remedy holds to the end. Where those take much
longer, they come last, when the cause is known with its line; elsewhere they count as evidence, too. Held and released
runs are made in turns, so that what changes with time is no evidence. Runs that were treated alike and diverge all the
same end the search there: from that place on no factor can be accused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from samebits.checking import plan as plans
from samebits.checking.asking import Asking
from samebits.checking.evidence import LIMIT, LIMIT_WITHOUT_LINE, chance_of_scatter, chance_of_split
from samebits.checking.facts import Entry
from samebits.checking.first import following
from samebits.checking.treatments import Inquiry, ending_of
from samebits.checking.verdict import DivergentRuns, Evidence, Run
from samebits.comparison.locate import Divergence, Position
from samebits.factors.catalog import find, in_order
from samebits.runfolder.plan import RunPlan

# Two hash seeds may order a small set alike by luck, so one that changes nothing is no acquittal yet.
LUCKY_VARIANTS = (3, 4, 5)
LEFT_ALONE_RUNS = 3
FIRST_HELD = 2
RARE_RUNS = 6
# A race that shows rarely would be followed for ever: after so many runs it stays suspected.
MOST_RUNS_ABOUT_ONE = 24


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
    plan: RunPlan
    runs: list[Run]
    place: Divergence
    divergent: DivergentRuns
    tried: int

    @property
    def is_left_alone(self) -> bool:
        return find(self.name).selects_algorithm


@dataclass
class Trial:
    """The remedy, as far as it was tried.

    Attributes:
        pins: it consists of.
        runs: made with it, up to the divergent step at least.
        whole: those that went to the end; the second one with everything else varied.
        is_base: its runs have the bits of the held runs, so they count as such.
        holds: it cures the divergence it was tried for; None while that is not known.
        later: where its runs diverge all the same.
        failure: which run failed with it.
    """

    pins: tuple[str, ...]
    runs: list[Run] = field(default_factory=list)
    whole: list[Run] = field(default_factory=list)
    is_base: bool = False
    holds: bool | None = None
    later: DivergentRuns | None = None
    failure: str = ""


class Round:
    """Experiments around one base. `next_suspect` and `weigh` are asked in turns, until a remedy is shown to hold.

    Args:
        inquiry: the check.
        at: where the runs diverge that are to be explained.
        pins: causes known already; they stay pinned throughout.
        moving: the factors that are held still besides.
        suspects: those among them that can be guilty, the likeliest group first.

    Attributes:
        held: runs with everything pinned.
        accused: the suspects that stood.
        tried: how many factors were released.
        failure: why nothing could be tried, as a sentence.
    """

    def __init__(
        self,
        inquiry: Inquiry,
        at: DivergentRuns,
        pins: Sequence[str],
        moving: Collection[str],
        suspects: Collection[str],
        tried: int = 0,
    ) -> None:
        self.inquiry, self.at, self.pins, self.tried = inquiry, at, tuple(pins), tried
        self.suspects = list(suspects)
        place, request = at.divergence, inquiry.request
        # A process among several may come to its step long after another one has passed the same number.
        ends_there = place.stream not in ("length", "outcome", "end") and not place.process
        self.step = place.step if ends_there else None
        names = in_order([*pins, *(name for name in moving if name not in request.pins)])
        self.plan = plans.pinned_run(request, names, self.step)
        if self.step is not None:
            # The tensor in which the runs diverged, to say by how much.
            self.plan = replace(self.plan, keep_step=place.step, keep_streams=(place.stream,), keep_names=(place.name,))
        self.held: list[Run] = []
        self.accused: list[Suspect] = []
        self.trials: list[Trial] = []
        self.rare: list[str] = []
        self.failure = ""
        self.candidates: list[str] = []

    def begin(self) -> Asking[None]:
        """Everything held still, twice: only where these runs agree can anybody be accused."""
        self.held = yield from self.inquiry.runs_of([self.plan] * FIRST_HELD)
        self.plan = self.held[0].plan
        failed = next((run for run in self.held if not run.succeeded), None)
        if failed is not None and self.at.divergence.stream != "outcome":
            self.failure = f"with everything pinned, run {failed.id} {ending_of(failed)}, see {failed.path}"
            return
        self._doubt(*self.held)
        self.candidates = self._ordered()
        # Whole tensors are kept by the first runs only: they are all that distances are measured between.
        self.spare = replace(self.plan, keep_step=None, keep_streams=(), keep_names=())

    @property
    def base(self) -> Run:
        return self.held[0]

    # ---- who is suspected

    def next_suspect(self) -> Asking[Suspect | None]:
        """The next factor that makes runs diverge when released; None when none is left, or the base is unsteady."""
        while self.candidates and not self._is_hopeless():
            room = self.inquiry.room(self.plan)
            # Beside the likeliest ones goes a run that is needed whoever is guilty.
            is_first = room > 1 and len(self.held) == FIRST_HELD and not find(self.candidates[0]).selects_algorithm
            most = room - 1 if is_first else room
            names, self.candidates = self.candidates[:most], self.candidates[most:]
            found = yield from self._released(names, [self.spare] if is_first else [])
            if found:
                # The others that differ wait for their turn: the remedy of the first may acquit them.
                self.candidates = [*(one.name for one in found[1:]), *self.candidates]
                self.tried -= len(found) - 1
                return found[0]
        return (yield from self._rarely_seen())

    def _rarely_seen(self) -> Asking[Suspect | None]:
        """Races show in some runs only: where no other factor is guilty, runs left alone are given another chance."""
        again, self.rare = self.rare, []
        for name in [] if self.accused or self._is_hopeless() else again:
            suspect = yield from self._left_alone(name, RARE_RUNS)
            if suspect is not None:
                return suspect
        return None

    def _is_hopeless(self) -> bool:
        """Whether runs treated alike diverge no later than those that are to be explained."""
        return self._limit() <= self.at.divergence.position

    def _ordered(self) -> list[str]:
        """What was asked for, what was seen to enter, what can only be read in the code, modes, and all others."""
        pinned = set(self.plan.named("pinned"))
        names = [name for name in self.suspects if name in pinned and name not in self.pins]
        used = self.base.facts.used
        possible = [name for name in names if used is None or used.issuperset(_needs(name))]
        vary = self.inquiry.request.vary
        return sorted(possible, key=lambda name: (name not in vary, self._unlikeliness(name)))

    def entries(self, name: str) -> tuple[Entry, ...]:
        """The lines at which a factor entered the held runs; or, of what those were kept from, the first ones."""
        return self.inquiry.left_behind if find(name).by_copy else self.base.facts.entries.get(name, ())

    def _unlikeliness(self, name: str) -> int:
        factor, facts = find(name), self.base.facts
        if factor.by_copy:
            return -1
        if factor.selects_algorithm:
            return 2
        if factor.has_sites:
            # Entered by no line of the user's: possible, for what libraries do on their own, and tried last.
            return 0 if self.entries(name) else 3
        return 1 if factor.found_statically and (not facts.read_lines.get(name) or self._is_explained(name)) else 0

    def _is_explained(self, name: str) -> bool:
        """Whether a cause that is known already enters at every line that was read for this factor."""
        lines = self.base.facts.read_lines
        known = {entry.site.key for pin in self.pins for entry in lines.get(pin, ())}
        return known.issuperset(entry.site.key for entry in lines.get(name, ()))

    def _released(self, names: Sequence[str], beside: Sequence[RunPlan] = ()) -> Asking[list[Suspect]]:
        """Those of these factors that make runs diverge, the earliest in the catalogue's order of suspicion first.

        Args:
            names: of the factors.
            beside: held runs to be made at the same time.
        """
        found: list[Suspect] = []
        values = [name for name in names if not find(name).selects_algorithm]
        wanted = [plans.released_run(self.plan, name, plans.RELEASED) for name in values]
        runs = yield from self.inquiry.runs_of([*wanted, *beside])
        for run in runs[len(values) :]:
            self._hold(run)
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
        place = self.differ(self.base, run)
        if place is None:
            return None
        plan = replace(run.plan, keep_step=None, keep_streams=(), keep_names=())
        return Suspect(name, plan, [run], place, DivergentRuns(self.base.id, run.id, place), self.tried)

    def _tried_again(self, name: str) -> Asking[Suspect | None]:
        if not find(name).found_statically or self._is_explained(name):
            return None
        for variant in LUCKY_VARIANTS:
            (run,) = yield from self.inquiry.runs_of([plans.released_run(self.plan, name, variant)])
            self.tried += 1
            suspect = self._suspect(name, run)
            if suspect is not None:
                return suspect
        return None

    def _left_alone(self, name: str, count: int = LEFT_ALONE_RUNS) -> Asking[Suspect | None]:
        """A factor that chooses algorithms: each has bits of its own, so runs left alone are compared together."""
        plan = plans.natural_run(self.spare, name)
        runs = yield from self.inquiry.runs_of([plan] * count)
        other = next((run for run in runs[1:] if self.differ(runs[0], run) is not None), None)
        if other is None:
            self.rare.append(name)
            return None
        place = self.differ(runs[0], other)
        assert place is not None
        return Suspect(name, plan, list(runs), place, DivergentRuns(runs[0].id, other.id, place), self.tried)

    # ---- how sure that is

    def weigh(self, suspect: Suspect) -> Asking[bool]:
        """Make the runs that decide about a suspect, its remedy among them; False when it cannot be accused.

        Of a long script the remedy's whole runs are left to `show`.
        """
        self.accused.append(suspect)
        trial = Trial(tuple(in_order([*self.pins, *(one.name for one in self.accused)])))
        self.trials.append(trial)
        for batch in self._wanted(suspect, trial):
            yield from self._made(batch, suspect, trial)
            if not self.stands(suspect):
                self.accused.remove(suspect)
                self.trials.remove(trial)
                return False
        return True

    def show(self, suspect: Suspect) -> Asking[bool]:
        """Whether the remedy tried last holds: shown by whole runs, unless it is known what comes after."""
        trial = self.trials[-1]
        is_shown = trial.whole or trial.later is not None
        for batch in [] if is_shown else self._batches(self._whole(trial)):
            if trial.holds:
                yield from self._made(batch, suspect, trial)
        return bool(trial.holds)

    def evidence(self, suspect: Suspect) -> Evidence:
        """The runs that speak about a suspect, and what they prove together."""
        base = self.base_runs()
        strays = self.strays(suspect)
        if suspect.is_left_alone:
            chance = chance_of_scatter(len(base), len(suspect.runs), strays, suspect.tried)
        else:
            chance = chance_of_split(len(base), strays, suspect.tried)
            if strays < len(suspect.runs):
                chance = 1.0
        lines = self.entries(suspect.name)
        return Evidence(
            tuple(run.id for run in base),
            tuple(run.id for run in suspect.runs),
            strays,
            chance,
            LIMIT if lines else LIMIT_WITHOUT_LINE,
            suspect.is_left_alone,
            suspect.runs[0].facts.last_words if suspect.place.stream == "outcome" else "",
        )

    def _wanted(self, suspect: Suspect, trial: Trial) -> Iterator[list[tuple[str, RunPlan]]]:
        """What to run next, batch by batch, as long as anything is missing."""
        request = self.inquiry.request
        released, held = ("released", suspect.plan), ("held", self.spare)
        pins, last = trial.pins, self.step
        alike = "remedy", plans.remedy_run(request, pins, stop_after=last)
        varied = "remedy", plans.remedy_varied_run(request, pins, variant=plans.RELEASED, stop_after=last)
        # Runs that were treated alike must agree when treated alike; one that was varied, when the rest is varied.
        first, second = (alike, alike) if self._is_alike() else (varied, alike)
        # Where many held runs are needed anyway, some come first: they show soonest that nothing can be accused.
        yield from self._batches([*([held, held] if suspect.is_left_alone else []), released, first])
        if trial.holds is None:
            # Is it the base that does not repeat, or is there another cause, or do pins choose other algorithms?
            yield from self._batches([held, second])
        if trial.holds is None:
            a, b = trial.runs[:2]
            place = self.differ(a, b)
            trial.holds = place is None
            trial.later = None if place is None else DivergentRuns(a.id, b.id, place, varied=_varied(a, b))
        comes_last = self.inquiry.is_long
        if comes_last and trial.holds and self._is_alike():
            # What would differ at once with the rest varied needs no whole run to show it.
            yield from self._batches([released, ("rest varied", varied[1])])
        if not comes_last:
            one, other = self._whole(trial)
            # Side by side, those that go to the end go together.
            is_alone = self.inquiry.room(one[1]) == 1
            order = [released, one, released, other] if is_alone else [released, released, one, other]
            for batch in self._batches(order):
                if trial.holds:
                    yield batch
        while not self.evidence(suspect).is_enough and self._about(suspect) < MOST_RUNS_ABOUT_ONE:
            yield from self._batches(self._missing(suspect, released, held))

    def _whole(self, trial: Trial) -> list[tuple[str, RunPlan]]:
        request = self.inquiry.request
        return [
            ("whole", plans.remedy_run(request, trial.pins)),
            ("whole", plans.remedy_varied_run(request, trial.pins)),
        ]

    def _batches(self, wanted: Sequence[tuple[str, RunPlan]]) -> Iterator[list[tuple[str, RunPlan]]]:
        """The plans with what they are for, in batches of as many as may go on side by side."""
        left = list(wanted)
        for batch in self.inquiry.batches([plan for _, plan in wanted]):
            yield left[: len(batch)]
            del left[: len(batch)]

    def _made(self, batch: Sequence[tuple[str, RunPlan]], suspect: Suspect, trial: Trial) -> Asking[None]:
        """Make these runs; the second one that goes to the end ends where it leaves the first."""
        known = trial.whole[0] if trial.whole else None
        wanted = [following(plan, known) if kind == "whole" else plan for kind, plan in batch]
        runs = yield from self.inquiry.runs_of(wanted)
        for (kind, _), run in zip(batch, runs, strict=True):
            self._take(kind, run, suspect, trial)

    def _missing(
        self, suspect: Suspect, released: tuple[str, RunPlan], held: tuple[str, RunPlan]
    ) -> list[tuple[str, RunPlan]]:
        """The next runs of either kind, whichever proves more; as many as can be made side by side."""
        base, strays, found = len(self.base_runs()), self.strays(suspect), list[tuple[str, RunPlan]]()
        limit, tried, alone = self.evidence(suspect).limit, suspect.tried, len(suspect.runs)

        def chance(more_base: int, more_strays: int) -> float:
            if suspect.is_left_alone:
                return chance_of_scatter(base + more_base, alone + more_strays, strays + more_strays, tried)
            return chance_of_split(base + more_base, strays + more_strays, tried)

        a = b = 0
        while len(found) < self.inquiry.room(self.spare) and (not found or chance(a, b) >= limit):
            if chance(a + 1, b) < chance(a, b + 1):
                a, found = a + 1, [*found, held]
            else:
                b, found = b + 1, [*found, released]
        return found

    def _about(self, suspect: Suspect) -> int:
        return len(self.base_runs()) + len(suspect.runs)

    def _take(self, kind: str, run: Run, suspect: Suspect, trial: Trial) -> None:
        """Put a run where it belongs, and doubt the base where it differs from its like."""
        if kind == "held":
            self._hold(run)
        elif kind == "released":
            suspect.runs.append(run)
            if not suspect.is_left_alone:
                self._doubt(suspect.runs[0], run)
        else:
            self._take_remedy(kind, run, trial)

    def _hold(self, run: Run) -> None:
        self.held.append(run)
        self._doubt(self.base, run)

    def _take_remedy(self, kind: str, run: Run, trial: Trial) -> None:
        pinned = {*run.plan.named("pinned"), *self.inquiry.request.pins}
        if not run.succeeded or not pinned.issuperset(trial.pins):
            # At fault is a pin of the remedy itself, which was left out: it is no remedy.
            trial.holds, trial.failure = False, f"run {run.id}"
            return
        first = not trial.runs
        trial.runs.append(run)
        if first:
            trial.is_base = self.differ(self.base, run) is None
            trial.holds = True if trial.is_base else None
        elif kind == "rest varied":
            self._take_varied(run, trial)
        elif kind == "whole":
            self._take_whole(run, trial)

    def _take_varied(self, run: Run, trial: Trial) -> None:
        place = self.differ(trial.runs[0], run)
        if place is not None:
            trial.later = DivergentRuns(trial.runs[0].id, run.id, place, varied=_varied(trial.runs[0], run))

    def _take_whole(self, run: Run, trial: Trial) -> None:
        trial.whole.append(run)
        self.inquiry.learn_length(trial.whole[0], self.at.divergence)
        if len(trial.whole) == 1:
            place = self.differ(trial.runs[0], run)
            if place is not None:
                # Left alone twice, and different: something else is not held yet.
                trial.holds, trial.later = False, DivergentRuns(trial.runs[0].id, run.id, place)
            return
        place = self.inquiry.compare(trial.whole[0], run)
        first = trial.whole[0]
        trial.later = None if place is None else DivergentRuns(first.id, run.id, place, varied=_varied(first, run))

    def _is_alike(self) -> bool:
        """Whether the runs to be explained were treated alike; otherwise one of them was varied."""
        return self.at.varied == ()

    def stands(self, suspect: Suspect) -> bool:
        """Whether a suspect still differs from the held runs before anything is unsteady."""
        return suspect.place.position < self._limit()

    def strays(self, suspect: Suspect) -> int:
        if not suspect.is_left_alone:
            return sum(self.differ(self.base, run) is not None for run in suspect.runs)
        return len(suspect.runs) - max(len(one) for one in self._classes(suspect.runs))

    def base_runs(self) -> list[Run]:
        """Held runs, and those with a remedy that have the same bits, up to the divergent step."""
        more = [run for trial in self.trials if trial.is_base for run in trial.runs]
        return [*self.held, *(run for run in more if self.differ(self.base, run) is None)]

    def _classes(self, runs: Sequence[Run]) -> list[list[Run]]:
        """The runs, those with the same bits together."""
        found: list[list[Run]] = []
        for run in runs:
            own = next((one for one in found if self.differ(one[0], run) is None), None)
            if own is None:
                found.append([run])
            else:
                own.append(run)
        return found

    def results(self) -> tuple[int, int]:
        """How many different results the held runs gave, and how many runs that were."""
        limit, self.inquiry.unsteady = self.inquiry.unsteady, None
        try:
            return len(self._classes(self.held)), len(self.held)
        finally:
            self.inquiry.unsteady = limit

    # ---- where runs differ

    def differ(self, a: Run, b: Run) -> Divergence | None:
        """Where two runs differ, before anything is unsteady and not after the divergent step."""
        place = self.inquiry.compare(a, b)
        if place is None or place.position >= self._limit():
            return None
        return place if self.step is None or place.step <= self.step else None

    def _limit(self) -> Position:
        unsteady = self.inquiry.unsteady
        return (2**62, 0) if unsteady is None else unsteady.divergence.position

    def _doubt(self, a: Run, b: Run) -> None:
        """Two runs treated alike: from where they diverge, no factor can be accused."""
        place = self.differ(a, b)
        if place is not None:
            self.inquiry.doubt(DivergentRuns(a.id, b.id, place))


def _needs(name: str) -> set[str]:
    # Whether a loader fetches is not noted; what asks for data-workers has one.
    return set(find(name).needs) - {"loader"}


def _varied(a: Run, b: Run) -> tuple[str, ...]:
    return tuple(in_order([*a.plan.named("varied"), *b.plan.named("varied")]))
