"""Treatments that the script does not survive: found, left out, and said. They are our doing, not the script's."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from samebits.checking.asking import Asking, Compare
from samebits.checking.plan import CheckRequest
from samebits.checking.products import place_of
from samebits.checking.verdict import DivergentRuns, LeftOut, Run, Treated
from samebits.comparison.locate import Divergence
from samebits.comparison.products import Key, Unlike
from samebits.factors.catalog import CATALOG, find, in_order
from samebits.factors.context import Mode, Setting
from samebits.runfolder.spec import RunSpec

# What a run is besides treated: watched, to see on which lines factors enter.
WATCHING: Final = "watching"
WITNESSED: Final = "witnessed"
# Where runs diverge so early in whole ones, runs that end there cost next to nothing.
LONG_RATIO = 10


@dataclass
class Inquiry:
    """What all decisions of one check share.

    Attributes:
        request: what is checked.
        recorded: where the recordings of two runs first differ; None where they agree as far as both went.
        compare_trained: where they first differ in what was trained; None where all that they do counts.
        left: how many runs may still be made.
        abreast: how many runs may go on side by side.
        left_by: number of the run whose folder was kept; None where none was.
        is_prepared: runs begin with what the first one made before its first step.
        forget_prepared: from now on they begin as the command found the folder.
        folder: the working folder.
        unlike: what two runs have made otherwise.
        explained: the leaves of what runs have made that are compared; none before runs agree in all that was recorded.
        left_out: treatments under which the script fails.
        erratic: two runs that were treated alike, of which one failed.
        made: the runs that answer the first question.
        is_long: the script goes on long after the step at which runs diverge, so whole runs are dear.
        unsteady: two runs that were treated alike and diverge although nothing was free: from there on no factor can be
            accused, in whatever round.
        is_short: the script ended by itself within the first look, so whole runs are cheap, and serve every round.
        known: runs of earlier rounds by what was released in them; held ones by None.
        failures: tests of suspects that came to nothing.
        luck: draws by lot. It has no seed: the bound on false accusations holds for its draws, whatever the script.
        blames_us: whether a failure under treatment is ours: not so where untreated runs fail, too.
    """

    request: CheckRequest
    recorded: Compare
    left: Callable[[], int]
    abreast: Callable[[], int] = lambda: 1
    left_by: Callable[[], int | None] = lambda: None
    is_prepared: Callable[[], bool] = lambda: False
    forget_prepared: Callable[[], None] = lambda: None
    folder: str = ""
    unlike: Callable[[Run, Run], list[Unlike]] = lambda a, b: []
    explained: frozenset[Key] = frozenset()
    left_out: list[LeftOut] = field(default_factory=list)
    erratic: DivergentRuns | None = None
    unsteady: DivergentRuns | None = None
    blames_us: bool = True
    made: list[Run] = field(default_factory=list)
    is_long: bool = False
    compare_trained: Compare | None = None
    is_short: bool = False
    known: dict[Hashable, list[Run]] = field(default_factory=dict)
    failures: int = 0
    luck: Random = field(default_factory=Random)

    def compare(self, a: Run, b: Run) -> Divergence | None:
        """Where two runs first differ: in what was recorded, else in what they made."""
        place = self.recorded(a, b)
        if place is not None or not self.explained or not self.may_compare(a, b):
            return place
        return place_of(a, b, [one for one in self.unlike(a, b) if one.key in self.explained])

    def may_compare(self, a: Run, b: Run) -> bool:
        """Whether what they made is to be compared: both came to their end, or were ended after one step."""
        ends = [run.facts.stopped_after for run in (a, b)]
        return a.succeeded and b.succeeded and ends[0] == ends[1] and "left" not in (a.begins, b.begins)

    def room(self) -> int:
        """How many runs may be made at once: the last one that is left is not kept waiting for two."""
        return max(1, min(self.abreast(), self.left()))

    def batches(self, plans: Sequence[RunSpec]) -> list[list[RunSpec]]:
        """The plans in their order, in batches of as many as may go on side by side."""
        room = self.room()
        return [list(plans[at : at + room]) for at in range(0, len(plans), room)]

    def learn_length(self, whole: Run | None, at: Divergence) -> None:
        """Whether the script goes on long after a place; as long as no run has shown how long it is, it does."""
        self.is_long = whole is None or whole.steps > LONG_RATIO * (at.step + 1)

    def runs_of(self, plans: Sequence[RunSpec]) -> Asking[list[Run]]:
        """These plans as runs, without what the script does not survive."""
        runs = yield [self.admitted(plan) for plan in plans]
        return (yield from self.mended(runs))

    def mended(self, runs: Sequence[Run]) -> Asking[list[Run]]:
        """The same runs; one that failed by our treatment is made again without it."""
        found = list(runs)
        if not self.blames_us:
            return found
        for number, run in enumerate(found):
            # A factor changed at some of its lines only may leave a script with two clocks: that says nothing about
            # the treatment of all of them.
            if any(own.released for own in run.plan.settings.values()):
                continue
            # What is known by now may be what broke this one, too.
            if not run.succeeded:
                run = yield from self._without_the_known(run)
            while not run.succeeded and (self._treated(run.plan) or run.plan.witness):
                culprits = self._raising(run) or (yield from self._culprits(run))
                if not culprits:
                    break
                self._leave_out(culprits, run)
                (run,) = yield [self.admitted(run.plan)]
            found[number] = run
        return found

    def _without_the_known(self, run: Run) -> Asking[Run]:
        """The run without what is left out already, or would be in this mode, too."""
        if self.admitted(run.plan) != run.plan:
            (run,) = yield [self.admitted(run.plan)]
        known = {one.factor for one in self.left_out}
        again = [name for name in self._treated(run.plan) if name in known]
        if run.succeeded or not again or WATCHING in known:
            return run
        kept = {name: own for name, own in run.plan.settings.items() if name not in again}
        (other,) = yield [replace(run.plan, settings=kept)]
        if not other.succeeded:
            return run
        self._leave_out(again, run)
        return other

    def _raising(self, run: Run) -> list[str]:
        """Pins that made an operation raise, where the run said so itself: nothing has to be searched then."""
        return [name for name in self._treated(run.plan) if find(name).may_raise] if run.facts.refusal else []

    def _leave_out(self, names: Sequence[str], run: Run) -> None:
        self.left_out += [LeftOut(name, _mode_of(name, run.plan), ending_of(run)) for name in names]

    def doubt(self, divergent: DivergentRuns) -> None:
        """Two runs treated alike diverge there: the earliest such place counts."""
        if self.unsteady is None or divergent.divergence.position < self.unsteady.divergence.position:
            self.unsteady = divergent

    def admitted(self, plan: RunSpec) -> RunSpec:
        """The plan without the treatments that are left out."""
        out = {(one.factor, one.mode) for one in self.left_out}
        kept = {name: own for name, own in plan.settings.items() if (name, own.mode) not in out}
        if plan.witness and (WATCHING, WITNESSED) in out:
            plan = replace(plan, witness=False)
        return plan if len(kept) == len(plan.settings) else replace(plan, settings=kept)

    def is_left_out(self, name: str, mode: str) -> bool:
        return any((one.factor, one.mode) == (name, mode) for one in self.left_out)

    def _treated(self, plan: RunSpec) -> list[str]:
        """What we treat in this run, besides what the user pinned in every run."""
        ours = [
            name for name, own in plan.settings.items() if own.mode != "natural" and not self._is_the_users(name, own)
        ]
        # Pins that make operations raise are the likeliest to stop a script.
        return sorted(in_order(ours), key=lambda name: not find(name).may_raise)

    def _is_the_users(self, name: str, own: Setting) -> bool:
        given = self.request.pins.get(name)
        return given is not None and (given.mode, given.value) == (own.mode, own.value) and not own.probed

    def _culprits(self, run: Run) -> Asking[list[str]]:
        """The treatments that make this run fail; empty where it fails or not whatever we do."""
        if (yield from self._is_erratic(run)):
            return []
        # Looking at who calls puts functions of ours in the places of others, with nothing treated, too.
        if run.plan.witness and not (yield from self._survives(run, [])):
            return [WATCHING]
        suspects = self._treated(run.plan)
        while len(suspects) > 1:
            middle = 1 if find(suspects[0]).may_raise else len(suspects) // 2
            survives = yield from self._survives(run, suspects[:middle])
            suspects = suspects[middle:] if survives else suspects[:middle]
        # It may stop the script only together with others; or all of it was luck.
        if (yield from self._survives(run, suspects)) and (yield from self._is_erratic(run)):
            return []
        return suspects

    def _survives(self, run: Run, names: Sequence[str]) -> Asking[bool]:
        """Whether the script works with only these factors treated as in this run."""
        (tried,) = yield [_treating(run, [*names, *self.request.pins])]
        return bool(tried.succeeded)

    def _is_erratic(self, run: Run) -> Asking[bool]:
        """Whether the same treatment is survived another time: then failing is what the script does by itself."""
        (again,) = yield [run.plan]
        if again.succeeded:
            self.erratic = DivergentRuns(again.id, run.id, Divergence(run.steps, "outcome", ending=ended(run)))
            self.doubt(self.erratic)
        return bool(again.succeeded)


def _mode_of(name: str, plan: RunSpec) -> Treated:
    mode: Mode | Treated = WITNESSED if name == WATCHING else plan.settings[name].mode
    assert mode != "natural", name
    return mode


def _treating(run: Run, names: Sequence[str]) -> RunSpec:
    """The run with only these factors treated, ended soon after the step in which it failed."""
    kept = {name: own for name, own in run.plan.settings.items() if name in names}
    last = run.steps if run.plan.stop_after is None else min(run.steps, run.plan.stop_after)
    return replace(run.plan, role="treatments told apart", settings=kept, stop_after=last)


def ended(run: Run) -> str:
    """How a run that failed ended, as a clause."""
    return f"run {run.id} {ending_of(run)} after {run.steps} steps{_saying(run)}"


def ending_of(run: Run) -> str:
    """`ended with exit status 1`, without the run's number."""
    return ("" if run.outcome.timed_out else run.facts.refusal) or run.outcome.described


def _saying(run: Run) -> str:
    # What it said last is no reason for what we did.
    return f", saying: {run.facts.last_words}" if run.facts.last_words and not run.outcome.timed_out else ""


def varying_between_runs() -> list[str]:
    """The factors that move by themselves from run to run."""
    return [factor.name for factor in CATALOG if factor.varies_between_runs and not factor.by_folder]
