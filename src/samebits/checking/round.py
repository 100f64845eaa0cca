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
from dataclasses import dataclass, field

from samebits.checking import plan as plans
from samebits.checking.asking import Asking
from samebits.checking.evidence import LIMIT, LIMIT_WITHOUT_LINE, chance_of_scatter, chance_of_split
from samebits.checking.first import following
from samebits.checking.held import Held
from samebits.checking.suspects import Lineup, Suspect
from samebits.checking.treatments import Inquiry
from samebits.checking.verdict import DivergentRuns, Evidence, Run
from samebits.factors.catalog import in_order
from samebits.runfolder.spec import RunSpec

# A race that shows rarely would be followed for ever: after so many runs it stays suspected.
MOST_RUNS_ABOUT_ONE = 24


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
        tried: how many factors earlier rounds have released.

    Attributes:
        held: runs with everything pinned.
        lineup: of the suspects.
        accused: those that stood.
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
        self.inquiry, self.at, self.pins = inquiry, at, tuple(pins)
        self.held = Held(inquiry, at, pins, moving)
        self.lineup = Lineup(self.held, suspects, pins, tried)
        self.accused: list[Suspect] = []
        self.trials: list[Trial] = []
        self.failure = ""

    def begin(self) -> Asking[None]:
        """Everything held still, and the suspects put in order."""
        self.failure = yield from self.held.begin()
        if not self.failure:
            self.lineup.begin()

    def next_suspect(self) -> Asking[Suspect | None]:
        """The next factor that makes runs diverge when released; None when none is left, or the base is unsteady."""
        return (yield from self.lineup.next(is_anyone_accused=bool(self.accused)))

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
        lines = self.held.entries(suspect.name)
        return Evidence(
            tuple(run.id for run in base),
            tuple(run.id for run in suspect.runs),
            strays,
            chance,
            LIMIT if lines else LIMIT_WITHOUT_LINE,
            suspect.is_left_alone,
            suspect.runs[0].facts.last_words if suspect.place.stream == "outcome" else "",
        )

    def _wanted(self, suspect: Suspect, trial: Trial) -> Iterator[list[tuple[str, RunSpec]]]:
        """What to run next, batch by batch, as long as anything is missing."""
        request = self.inquiry.request
        released, held = ("released", suspect.plan), ("held", self.held.spare)
        pins, last = trial.pins, self.held.step
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
            place = self.held.differ(a, b)
            trial.holds = place is None
            trial.later = None if place is None else DivergentRuns(a.id, b.id, place, varied=_varied(a, b))
        comes_last = self.inquiry.is_long
        if comes_last and trial.holds and self._is_alike():
            # What would differ at once with the rest varied needs no whole run to show it.
            yield from self._batches([released, ("rest varied", varied[1])])
        if not comes_last:
            one, other = self._whole(trial)
            # Side by side, those that go to the end go together.
            is_alone = self.inquiry.room() == 1
            order = [released, one, released, other] if is_alone else [released, released, one, other]
            for batch in self._batches(order):
                if trial.holds:
                    yield batch
        while not self.evidence(suspect).is_enough and self._about(suspect) < MOST_RUNS_ABOUT_ONE:
            yield from self._batches(self._missing(suspect, released, held))

    def _whole(self, trial: Trial) -> list[tuple[str, RunSpec]]:
        request = self.inquiry.request
        return [
            ("whole", plans.remedy_run(request, trial.pins)),
            ("whole", plans.remedy_varied_run(request, trial.pins)),
        ]

    def _batches(self, wanted: Sequence[tuple[str, RunSpec]]) -> Iterator[list[tuple[str, RunSpec]]]:
        """The plans with what they are for, in batches of as many as may go on side by side."""
        left = list(wanted)
        for batch in self.inquiry.batches([plan for _, plan in wanted]):
            yield left[: len(batch)]
            del left[: len(batch)]

    def _made(self, batch: Sequence[tuple[str, RunSpec]], suspect: Suspect, trial: Trial) -> Asking[None]:
        """Make these runs; the second one that goes to the end ends where it leaves the first."""
        known = trial.whole[0] if trial.whole else None
        wanted = [following(plan, known) if kind == "whole" else plan for kind, plan in batch]
        runs = yield from self.inquiry.runs_of(wanted)
        for (kind, _), run in zip(batch, runs, strict=True):
            self._take(kind, run, suspect, trial)

    def _missing(
        self, suspect: Suspect, released: tuple[str, RunSpec], held: tuple[str, RunSpec]
    ) -> list[tuple[str, RunSpec]]:
        """The next runs of either kind, whichever proves more; as many as can be made side by side."""
        base, strays, found = len(self.base_runs()), self.strays(suspect), list[tuple[str, RunSpec]]()
        limit, tried, alone = self.evidence(suspect).limit, suspect.tried, len(suspect.runs)

        def chance(more_base: int, more_strays: int) -> float:
            if suspect.is_left_alone:
                return chance_of_scatter(base + more_base, alone + more_strays, strays + more_strays, tried)
            return chance_of_split(base + more_base, strays + more_strays, tried)

        a = b = 0
        while len(found) < self.inquiry.room() and (not found or chance(a, b) >= limit):
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
            self.held.add(run)
        elif kind == "released":
            suspect.runs.append(run)
            if not suspect.is_left_alone:
                self.held.doubt(suspect.runs[0], run)
        else:
            self._take_remedy(kind, run, trial)

    def _take_remedy(self, kind: str, run: Run, trial: Trial) -> None:
        pinned = {*run.plan.named("pinned"), *self.inquiry.request.pins}
        if not run.succeeded or not pinned.issuperset(trial.pins):
            # At fault is a pin of the remedy itself, which was left out: it is no remedy.
            trial.holds, trial.failure = False, f"run {run.id}"
            return
        first = not trial.runs
        trial.runs.append(run)
        if first:
            trial.is_base = self.held.differ(self.held.base, run) is None
            trial.holds = True if trial.is_base else None
        elif kind == "rest varied":
            self._take_varied(run, trial)
        elif kind == "whole":
            self._take_whole(run, trial)

    def _take_varied(self, run: Run, trial: Trial) -> None:
        place = self.held.differ(trial.runs[0], run)
        if place is not None:
            trial.later = DivergentRuns(trial.runs[0].id, run.id, place, varied=_varied(trial.runs[0], run))

    def _take_whole(self, run: Run, trial: Trial) -> None:
        trial.whole.append(run)
        self.inquiry.learn_length(trial.whole[0], self.at.divergence)
        if len(trial.whole) == 1:
            place = self.held.differ(trial.runs[0], run)
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
        return suspect.place.position < self.held.limit()

    def strays(self, suspect: Suspect) -> int:
        if not suspect.is_left_alone:
            return sum(self.held.differ(self.held.base, run) is not None for run in suspect.runs)
        return len(suspect.runs) - max(len(one) for one in self.held.classes(suspect.runs))

    def base_runs(self) -> list[Run]:
        """Held runs, and those with a remedy that have the same bits, up to the divergent step."""
        more = [run for trial in self.trials if trial.is_base for run in trial.runs]
        return [*self.held.runs, *(run for run in more if self.held.differ(self.held.base, run) is None)]


def _varied(a: Run, b: Run) -> tuple[str, ...]:
    return tuple(in_order([*a.plan.named("varied"), *b.plan.named("varied")]))
