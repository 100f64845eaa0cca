"""One round of experiments on why runs diverge: everything is held still, then one factor at a time is released.

    baseline    everything that can move is pinned
    released    one factor changed on purpose, always in the same way; factors that choose algorithms are left alone
    remedy      the causes known so far pinned, and nothing else

A factor whose release changes the result is a suspect. To rule out luck, each further run releases one suspect, or
none, chosen at random, until that is proof enough. Runs end just after the divergent step, except for two that show
that the remedy holds to the end: where these take much longer, they come last, when the causes are known with their
lines. Runs treated alike that still diverge end the search: from that place on no factor can be accused.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import ceil, log

from samebits.checking import plan as plans
from samebits.checking.baseline import Baseline
from samebits.checking.evidence import HELD, LIMIT, chance_changed, chance_left_alone, chance_shown, limit_after
from samebits.checking.inquiry import Asking, Inquiry, Lot, draws_of
from samebits.checking.lineup import RARE_RUNS, Lineup
from samebits.checking.suspects import Suspect
from samebits.checking.verdict import DivergentRuns, Evidence, Run
from samebits.factors.catalog import in_order
from samebits.runfolder.spec import RunSpec

# A race that shows rarely would be tested forever: after this many draws it stays suspected.
MOST_DRAWS = 24
# Where a factor gives other bits whenever it is released, so many pinned runs show whether anything repeats at all.
SOUND = 3
# How many more runs a remedy is given, where a factor that is released gives another result in every run.
MORE_HELD = 4


@dataclass
class RemedyTrial:
    """A remedy, and the runs that have tried it so far.

    Attributes:
        last_step: the step after which runs to the end are stopped; None where the script ends by itself.
        alike: runs with it and nothing else; in those that are `varied`, the rest was varied.
        is_base: its runs have the bits of the baseline, so they count as baseline runs.
        holds: it fixes the divergence that it was tried for; None while that is not known.
        later: two runs with it that still diverge.
    """

    pins: tuple[str, ...]
    last_step: int | None
    alike: list[Run] = field(default_factory=list)
    varied: list[Run] = field(default_factory=list)
    is_base: bool = False
    holds: bool | None = None
    later: DivergentRuns | None = None
    failure: str = ""

    @property
    def runs(self) -> list[Run]:
        return [*self.alike, *self.varied]

    @property
    def whole(self) -> list[Run]:
        """The runs that went to the end, varied ones last."""
        return [run for run in self.runs if run.plan.stop_after == self.last_step]


class Round:
    """Experiments around one baseline, until a remedy is shown to hold where those of the round before do not.

    Attributes:
        at: the runs whose divergence is to be explained.
        accused: the suspects so far, also of the rounds before.
        trials: remedies, the last one the best.
        failure: why nothing could be tried, as a sentence.
    """

    def __init__(self, inquiry: Inquiry, at: DivergentRuns, suspects: Collection[str], before: Round | None) -> None:
        self.inquiry, self.at = inquiry, at
        self.baseline = Baseline(inquiry, at)
        self.accused: list[Suspect] = []
        self._lots: list[Lot] = []
        if before is not None:
            # Suspects of the round before are tested together with those of this one.
            self.accused, before.accused, self._lots = before.accused, [], before._lots
        self.lineup = Lineup(self.baseline, suspects, [one.name for one in self.accused])
        self.trials: list[RemedyTrial] = []
        self.failure = ""

    def begin(self) -> Asking[None]:
        """Make the baseline, and put the suspects in order."""
        self.failure = yield from self.baseline.begin()
        if not self.failure:
            self.lineup.begin()

    def explain(self) -> Asking[RemedyTrial | None]:
        """Return a remedy that holds at this place, or None; unless another round follows, confirm the causes."""
        before = list(self.accused)
        while True:
            # Unlikely factors are released only when the remedy fails with nothing else treated, too.
            waits = bool(self.trials) and self.trials[-1].holds is None and not self.trials[-1].alike
            suspect = yield from self.lineup.next([one.name for one in self.accused], likely_only=waits)
            is_last = suspect is None and (not waits or self.baseline.is_hopeless)
            if suspect is not None:
                self.accused.append(suspect)
            pins = tuple(in_order([one.name for one in self.accused]))
            if self.accused != before and pins not in [one.pins for one in self.trials]:
                self.trials.append(RemedyTrial(pins, self.inquiry.request.last_step))
                yield from self._try(self.trials[-1], is_varied=True)
            if self.trials and not self.lineup.is_anyone_likely:
                yield from self._settle(self.trials[-1])
            remedied = self._remedied
            if is_last or (remedied is not None and remedied.later is None and not self._is_open(remedied)):
                yield from self._confirm()
            if is_last or remedied is not None:
                return self._remedied

    @property
    def _remedied(self) -> RemedyTrial | None:
        return self.trials[-1] if self.trials and self.trials[-1].holds else None

    def try_whole_runs(self) -> Asking[bool]:
        """Whether the last remedy holds: whole runs show it, unless it is known where its runs diverge later."""
        trial = self.trials[-1]
        if trial.later is None:
            shown = [any(run in trial.whole for run in tried) for tried in (trial.alike, trial.varied)]
            for batch in self.inquiry.batches([is_varied for is_varied in (False, True) if not shown[is_varied]]):
                known = trial.whole[0] if trial.whole else None
                specs = [plans.following(self._remedy(trial, is_varied), known) for is_varied in batch]
                runs = yield from self.inquiry.runs_of(specs)
                for is_varied, run in zip(batch, runs, strict=True):
                    self._note_remedy_run(trial, run, is_varied)
                if not trial.holds:
                    return False
        return True

    def repeat_remedy(self) -> Asking[None]:
        """Make some more runs with the remedy, where runs with a guilty factor released diverge from one another."""
        for _ in range(MORE_HELD):
            unsteady, trial = self.inquiry.unsteady, self.trials[-1]
            if unsteady is None or not LIMIT <= self._chance_of_agreeing(unsteady) < 1 or not self.inquiry.left:
                return
            (run,) = yield from self.inquiry.runs_of([self._remedy(trial, False, is_short=True)])
            self._note_remedy_run(trial, run, is_varied=False)

    def accounts_for(self, unsteady: DivergentRuns) -> bool:
        """Whether runs treated alike diverge only because a guilty factor was released: with the remedy all agree."""
        return self._chance_of_agreeing(unsteady) < LIMIT

    def _chance_of_agreeing(self, unsteady: DivergentRuns) -> float:
        trial = self._remedied
        if trial is None or len(trial.whole) < 2:
            return 1.0
        # Runs are compared in all that they did: a difference after an unsteady place counts here.
        if any(self.inquiry.compare(trial.runs[0], run) is not None for run in trial.runs[1:]):
            return 1.0
        held = [*self.baseline.runs, *trial.runs]
        return min((one.chance_of_agreeing(unsteady, held) for one in self.accused if one.is_standing), default=1.0)

    # ---- how sure that is

    def evidence(self, suspect: Suspect) -> Evidence:
        """Return the runs that speak about a suspect, and what they prove together."""
        more = [run for trial in self.trials if trial.is_base for run in trial.runs]
        base = [run for run in more if self.baseline.differ(self.baseline.base, run) is None]
        chance, limit = suspect.proven or (self._chance(suspect), limit_after(self.inquiry.failures))
        return Evidence(
            tuple(run.id for run in [*self.baseline.runs, *base]),
            tuple(run.id for run in suspect.telling),
            suspect.strays,
            chance,
            limit,
            suspect.is_left_alone,
            suspect.runs[0].facts.last_words if suspect.divergent.divergence.stream == "outcome" else "",
        )

    def _chance(self, suspect: Suspect) -> float:
        draws = draws_of(self._lots, suspect.results())
        seen = {way: result for one in self.accused for way, result in one.seen().items()}
        if suspect.scatters:
            drawn = [run.id for _, _, run in self._lots]
            earlier = [suspect.shows(run) for run in suspect.telling if run.id not in drawn]
            return chance_shown(suspect.name, draws, seen, earlier)
        return (chance_left_alone if suspect.is_left_alone else chance_changed)(suspect.name, draws, seen)

    def _confirm(self) -> Asking[None]:
        """Make runs drawn by lot until all suspects are proven guilty, or no longer can be."""
        while (doubtful := self._doubtful()) and not self.baseline.is_hopeless:
            yield from self._drawn(doubtful, min(self._lacking(doubtful), self.inquiry.room))
        if any(one.proven is None for one in self.accused):
            self.inquiry.failures += 1

    def _lacking(self, suspects: Sequence[Suspect]) -> int:
        """Return how many lots it takes at least to prove all of these suspects guilty."""
        treatments = 1 + sum(len(one.ways) for one in suspects)
        lacking = (log(evidence.chance / evidence.limit, treatments) for evidence in map(self.evidence, suspects))
        return max(map(ceil, lacking), default=0)

    def _doubtful(self) -> list[Suspect]:
        """Return the suspects that are not proven guilty yet and still may be; mark those that are proven."""
        for suspect in self.accused:
            evidence = self.evidence(suspect)
            if suspect.proven is None and evidence.is_enough:
                suspect.proven = evidence.chance, evidence.limit
        drawn = [name for shares, _, _ in self._lots for name in {factor for factor, _ in shares}]
        # A coin that fell in two runs looks like a factor that scatters, and its lots win nothing.
        most = {one.name: RARE_RUNS if one.scatters and self._chance(one) == 1 else MOST_DRAWS for one in self.accused}
        return [one for one in self.accused if one.proven is None and drawn.count(one.name) < most[one.name]]

    def _drawn(self, suspects: Sequence[Suspect], count: int, beside: Sequence[RunSpec] = ()) -> Asking[list[Run]]:
        """Make `count` runs drawn by lot, and the runs `beside` at the same time; return the latter."""
        # A run that releases no suspect may be one with the remedy and nothing else, where such a run is needed anyway.
        trial = self.trials[-1] if self.trials else None
        untried = trial if trial and trial.is_base and trial.varied and not trial.alike else None
        held = self._remedy(untried, False, is_short=self.inquiry.is_long) if untried else self.baseline.spare
        treatments = {HELD: held, **{way: plan for one in suspects for way, plan in one.ways.items()}}
        limit, is_surprise = self.baseline.limit, False
        others, lots = yield from self.inquiry.by_lot(treatments, count, beside)
        self._lots += lots
        for _, drawn, run in lots:
            if drawn != HELD:
                suspect = next(one for one in suspects if one.name == drawn[0])
                is_surprise |= suspect.add(run)
            elif untried:
                self._note_remedy_run(untried, run, is_varied=False)
                is_surprise |= self.baseline.differ(self.baseline.base, run) is not None
            else:
                self.baseline.add(run)
        if any(one.scatters for one in self.accused):
            lacking = SOUND - len(self.baseline.runs)
            for run in (yield from self.inquiry.runs_of([self.baseline.spare] * lacking)):
                self.baseline.add(run)
        if is_surprise or self.baseline.limit != limit:
            self._start_again()
        return others

    def _start_again(self) -> None:
        """Discard the draws so far: the factors still accused are tested again, with a lower limit."""
        self.inquiry.failures += 1
        self._lots.clear()
        fallen = {one.name for one in self.accused if not one.is_standing}
        self.accused = [one for one in self.accused if one.name not in fallen]
        self.trials = [one for one in self.trials if not fallen.intersection(one.pins)]

    # ---- the remedy

    def _try(self, trial: RemedyTrial, *, is_varied: bool) -> Asking[None]:
        """Make one run with a remedy, and at the same time as many runs drawn by lot as there is room for.

        From the third remedy on, one at least is drawn. Where runs treated alike diverge, any factor seems to matter;
        a treatment that is drawn again, and gives another result, shows it.
        """
        plan = self._remedy(trial, is_varied, is_short=self.inquiry.is_long)
        doubtful, room = self._doubtful(), max(self.inquiry.room - 1, int(len(self.trials) > 2))
        (run,) = yield from self._drawn(doubtful, min(self._lacking(doubtful), room, self.inquiry.left - 1), [plan])
        self._note_remedy_run(trial, run, is_varied)

    def _settle(self, trial: RemedyTrial) -> Asking[None]:
        """Try a remedy with nothing else treated, as long as its runs leave open whether it holds."""
        most = 2 if self._is_alike else 1
        while trial in self.trials and len(trial.alike) < most and self._is_open(trial):
            yield from self._try(trial, is_varied=False)

    def _is_open(self, trial: RemedyTrial) -> bool:
        """Whether it is still unknown if a remedy holds, or if its runs diverge later."""
        if trial.holds is None or not trial.runs:
            return trial.holds is None
        is_longer = self.inquiry.is_short and self.inquiry.compare(self.baseline.base, trial.runs[-1]) is not None
        return trial.holds and not trial.alike and is_longer

    def _remedy(self, trial: RemedyTrial, is_varied: bool, *, is_short: bool = False) -> RunSpec:
        make = plans.remedy_varied_run if is_varied else plans.remedy_run
        return make(self.inquiry.request, trial.pins, self.baseline.step if is_short else None)

    def _note_remedy_run(self, trial: RemedyTrial, run: Run, is_varied: bool) -> None:
        """Note what a run with a remedy shows."""
        pinned = {*run.plan.named("pinned"), *self.inquiry.request.pins}
        if not run.succeeded or not pinned.issuperset(trial.pins):
            # The script fails with the remedy, or one of its pins had to be left out: it is no remedy.
            reason = run.ending if not run.succeeded else "succeeded only without one of the pins"
            trial.holds, trial.failure = False, f"run {run.id} {reason}"
            return
        earlier = next(iter([*trial.whole, *trial.runs]), None)
        (trial.varied if is_varied else trial.alike).append(run)
        if not is_varied and run.plan.stop_after == trial.last_step:
            self.inquiry.learn_length(run, self.at.divergence)
        if self.baseline.differ(self.baseline.base, run) is None:
            trial.holds = trial.is_base = True
        if earlier is not None:
            self._note_remedy_pair(trial, *sorted([earlier, run], key=lambda one: one in trial.varied))

    def _note_remedy_pair(self, trial: RemedyTrial, a: Run, b: Run) -> None:
        """Note what two runs with a remedy show."""
        place = self.inquiry.compare(a, b)
        varied = tuple(in_order([*a.plan.named("varied"), *b.plan.named("varied")]))
        if place is None or place.position >= self.baseline.limit:
            trial.holds = True if trial.holds is None else trial.holds
            return
        if trial.later is None or not varied:
            trial.later = DivergentRuns(a.id, b.id, place, varied=varied)
        if self.baseline.differ(a, b) is not None and (not varied or not self._is_alike):
            # Another cause is not held yet.
            trial.holds = False

    @property
    def _is_alike(self) -> bool:
        """Whether the runs to be explained were treated alike; if not, one of them was varied."""
        return self.at.varied == ()
