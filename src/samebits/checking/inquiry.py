"""What the decisions of a check share: how they ask for runs, what is known by now, what the script does not survive.

Decisions are generators: each yields specs, is sent the runs made of them, and returns what follows. `experiments`
answers with real runs, the tests with simulated scripts. A treatment that makes the script fail is our doing: it is
found, left out, and said.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeAlias, TypeVar

from samebits.base.sites import shown_path
from samebits.checking.evidence import UNCHANGED, Draw, Treatment
from samebits.checking.plan import CheckRequest, stopping_after
from samebits.checking.pool import BudgetSpentError, RunPool
from samebits.checking.verdict import WATCHING, WITNESSED, DivergentRuns, LeftOut, Run
from samebits.comparison.contents import is_digest
from samebits.comparison.locate import Divergence, Which
from samebits.comparison.products import PRINTED, Key, Unlike
from samebits.factors.catalog import find, in_order
from samebits.runfolder.spec import RunSpec

T = TypeVar("T")
Asking: TypeAlias = Generator[Sequence[RunSpec], Sequence[Run], T]
# The chance of each treatment, the one that was drawn, and the run.
Lot: TypeAlias = tuple[Mapping[Treatment, float], Treatment, Run]

# Where runs diverge so early in whole ones, runs that end there cost next to nothing.
LONG_RATIO = 10


def drive(asking: Asking[T], run_all: Callable[[Sequence[RunSpec]], Sequence[Run]]) -> T:
    """Answer every question of a search with runs; returns what the search returns."""
    try:
        specs = next(asking)
        while True:
            try:
                runs = run_all(specs)
            except BudgetSpentError as spent:
                specs = asking.throw(spent)
            else:
                specs = asking.send(runs)
    except StopIteration as end:
        found: T = end.value
        return found


@dataclass
class Inquiry:
    """One check, as far as it has come.

    Attributes:
        request: what is checked.
        pool: it compares runs, and knows how many more there may be; they are asked for by yielding alone.
        luck: draws by lot. It has no seed: the bound on false accusations holds for its draws, whatever the script.
        first: the runs that answer the first question.
        left_out: treatments under which the script fails.
        blames_us: a failure under treatment is ours: not so where untreated runs fail, too.
        erratic: two runs that were treated alike, of which one failed.
        unsteady: two runs that were treated alike and diverge although nothing was free: from there on no factor can be
            accused, in whatever round.
        explained: the leaves of what runs have made that are compared; none before runs agree in all that was recorded.
        is_long: the script runs long after the step at which runs diverge, so whole runs are dear.
        known: runs of earlier rounds by what was released in them; the baseline by None.
        failures: tests of suspects that came to nothing.
    """

    request: CheckRequest
    pool: RunPool
    luck: Random = field(default_factory=Random)
    first: list[Run] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    blames_us: bool = True
    erratic: DivergentRuns | None = None
    unsteady: DivergentRuns | None = None
    explained: frozenset[Key] = frozenset()
    is_long: bool = False
    known: dict[Hashable, list[Run]] = field(default_factory=dict)
    failures: int = 0

    @property
    def left(self) -> int:
        """How many runs may still be made."""
        return self.pool.left

    @property
    def room(self) -> int:
        """How many runs may be made at once: the last one that is left is not kept waiting for two."""
        return max(1, min(self.pool.room, self.left))

    @property
    def folder(self) -> str:
        """The working folder."""
        return self.pool.workspace.folder

    @property
    def is_short(self) -> bool:
        """Whether the script ended by itself within the first look: whole runs are cheap, and serve every round."""
        return bool(self.first) and self.first[0].stopped_after in (None, self.request.last_step)

    # ---- where runs differ

    def compare(self, a: Run, b: Run) -> Divergence | None:
        """Where two runs first differ: in what was recorded, else in what they made."""
        place = self.pool.compare(a, b)
        if place is not None or not self.explained or not self.may_compare(a, b):
            return place
        return product_divergence(a, [one for one in self.pool.unlike(a, b) if one.key in self.explained])

    def may_compare(self, a: Run, b: Run) -> bool:
        """Whether what they made is to be compared: both came to their end, or were ended after one step."""
        ends = [run.stopped_after for run in (a, b)]
        return a.succeeded and b.succeeded and ends[0] == ends[1] and "left" not in (a.plan.begins, b.plan.begins)

    def doubt(self, divergent: DivergentRuns) -> None:
        """Two runs treated alike diverge there: the earliest such place counts."""
        if self.unsteady is None or divergent.divergence.position < self.unsteady.divergence.position:
            self.unsteady = divergent

    def learn_length(self, whole: Run | None, at: Divergence) -> None:
        """Note whether the script runs long after a place; until a run shows how long it is, it is taken to."""
        self.is_long = whole is None or whole.steps > LONG_RATIO * (at.step + 1)

    # ---- runs without what the script does not survive

    def batches(self, wanted: Sequence[T]) -> list[list[T]]:
        """The same in their order, in batches of as many as may be made side by side."""
        room = self.room
        return [list(wanted[at : at + room]) for at in range(0, len(wanted), room)]

    def by_lot(
        self, treatments: Mapping[Treatment, RunSpec], count: int, beside: Sequence[RunSpec] = ()
    ) -> Asking[tuple[list[Run], list[Lot]]]:
        """`count` runs with treatments drawn by lot, and others made at the same time, which come first."""
        shares: Mapping[Treatment, float] = dict.fromkeys(treatments, 1 / len(treatments))
        drawn = [self.luck.choice(list(treatments)) for _ in range(count)]
        runs = yield from self.runs_of([*beside, *(treatments[one] for one in drawn)])
        lots = [(shares, one, run) for one, run in zip(drawn, runs[len(beside) :], strict=True)]
        return runs[: len(beside)], lots

    def runs_of(self, specs: Sequence[RunSpec]) -> Asking[list[Run]]:
        """These specs as runs, without what the script does not survive."""
        runs = yield [self._admitted(spec) for spec in specs]
        return (yield from self.retried(runs))

    def retried(self, runs: Sequence[Run]) -> Asking[list[Run]]:
        """The same runs; one that failed by our treatment is made again without it."""
        found = list(runs)
        for number, run in enumerate(runs if self.blames_us else ()):
            # A factor changed at some of its lines only may leave a script with two clocks: that says nothing about
            # the treatment of all of them.
            if any(own.released for own in run.plan.settings.values()):
                continue
            # What is known by now may be what broke this one, too.
            if not run.succeeded:
                run = yield from self._without_the_known(run)
            # What its time limit ended has not failed by itself: the machine may have been busy.
            if run.timed_out and not self._stalling(run):
                (run,) = yield [run.plan]
            while not run.succeeded and (self._treated(run.plan) or run.plan.witness):
                # A pin that made an operation raise was named by the run itself: nothing has to be searched then.
                raising = [name for name in self._treated(run.plan) if find(name).may_raise and run.facts.refusal]
                culprits = raising or self._stalling(run) or (yield from self._culprits(run))
                if not culprits:
                    break
                self._leave_out(culprits, run)
                (run,) = yield [self._admitted(run.plan)]
            found[number] = run
        return found

    def _stalling(self, run: Run) -> list[str]:
        return [name for name in self._treated(run.plan) if run.timed_out and find(name).may_stall]

    def is_left_out(self, name: str, mode: str) -> bool:
        """Whether the script fails where this factor is treated so."""
        return any((one.factor, one.mode) == (name, mode) for one in self.left_out)

    def _admitted(self, spec: RunSpec) -> RunSpec:
        kept = {name: own for name, own in spec.settings.items() if not self.is_left_out(name, own.mode)}
        if spec.witness and self.is_left_out(WATCHING, WITNESSED):
            spec = replace(spec, witness=False)
        return spec if len(kept) == len(spec.settings) else replace(spec, settings=kept)

    def _without_the_known(self, run: Run) -> Asking[Run]:
        """The run without what is left out already, or would be in this mode, too."""
        if self._admitted(run.plan) != run.plan:
            (run,) = yield [self._admitted(run.plan)]
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

    def _leave_out(self, names: Sequence[str], run: Run) -> None:
        for name in names:
            mode = WITNESSED if name == WATCHING else run.plan.settings[name].mode
            assert mode != "natural", name
            self.left_out.append(LeftOut(name, mode, run.ending))

    def _treated(self, spec: RunSpec) -> list[str]:
        """What we treat in this run, besides what the user pinned in every run; what is likeliest to stop it first."""
        given = self.request.pins
        ours = [
            name
            for name, own in spec.settings.items()
            if own.mode != "natural"
            and (own.probed or name not in given or (given[name].mode, given[name].value) != (own.mode, own.value))
        ]
        return sorted(in_order(ours), key=lambda name: not find(name).may_raise)

    def _culprits(self, run: Run) -> Asking[list[str]]:
        """The treatments that make this run fail; empty where it fails or not whatever we do."""
        if (yield from self._survives_again(run)):
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
        if (yield from self._survives(run, suspects)) and (yield from self._survives_again(run)):
            return []
        return suspects

    def _survives(self, run: Run, names: Sequence[str]) -> Asking[bool]:
        """Whether the script works with only these factors treated; ended soon after the step in which it failed."""
        kept = {name: own for name, own in run.plan.settings.items() if name in (*names, *self.request.pins)}
        spec = replace(run.plan, role="treatments told apart", settings=kept)
        (tried,) = yield [stopping_after(spec, run.steps)]
        return bool(tried.succeeded)

    def _survives_again(self, run: Run) -> Asking[bool]:
        """Whether the same treatment is survived another time: then failing is what the script does by itself."""
        (again,) = yield [run.plan]
        if again.succeeded:
            self.erratic = DivergentRuns(again.id, run.id, Divergence(run.steps, "outcome", ending=run.failure))
            self.doubt(self.erratic)
        return bool(again.succeeded)


def draws_of(lots: Sequence[Lot], results: Mapping[int, Hashable]) -> list[Draw]:
    """The lots, with what came out of the runs whose numbers are given."""
    return [Draw(shares, drawn, results.get(run.id, UNCHANGED)) for shares, drawn, run in lots]


def product_divergence(a: Run, found: Sequence[Unlike]) -> Divergence | None:
    """The place of the first of what a run and another have made differently; None where nothing was found."""
    if not found:
        return None
    one = found[0]
    site = a.facts.wrote.get(one.path)
    file = f"{shown_path(one.path)}{f' ({site.place})' if site else ''}" if one.path else PRINTED
    name = f"{file}: {one.key[1]}" if one.key[1] else file
    only: Which | None = "second" if one.a is None else "first" if one.b is None else None
    # Digests say no more than that they differ.
    is_told = one.a is not None and one.b is not None and not is_digest(one.a) and not is_digest(one.b)
    apart = f"{one.a} and {one.b}" if is_told else ""
    return Divergence(a.steps, "product", name, differing=len(found), only_in=only, ending=apart)
