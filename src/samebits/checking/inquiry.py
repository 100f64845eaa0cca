"""The state that all decisions of a check share: requests for runs, known runs, treatments that break the script.

Decisions are generators: each yields specs, is sent the runs made from them, and returns its conclusion. `experiments`
answers with real runs, the tests with simulated scripts. A treatment that makes the script fail is our doing: it is
found, left out, and reported.
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
from samebits.comparison.products import LeafDifference, Leaves
from samebits.factors.catalog import find, in_order
from samebits.runfolder.spec import RunSpec

T = TypeVar("T")
Asking: TypeAlias = Generator[Sequence[RunSpec], Sequence[Run], T]
# The chance of each treatment, the treatment that was drawn, and the run made with it.
Lot: TypeAlias = tuple[Mapping[Treatment, float], Treatment, Run]

# A script this many times longer than the part up to a divergence is long: runs that end there cost next to nothing.
LONG_RATIO = 10


def drive(asking: Asking[T], run_all: Callable[[Sequence[RunSpec]], Sequence[Run]]) -> T:
    """Answer each request of a search with runs, or with the BudgetSpentError of making them; return its result."""
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
        result: T = end.value
        return result


@dataclass
class Inquiry:
    """The state of one check so far.

    Attributes:
        request: the check that was asked for.
        pool: compares runs, and knows how many more may be made; decisions ask for runs only by yielding specs.
        lot_rng: draws the lots. It has no seed: the bound on false accusations rests on its draws alone.
        first: the runs that answer the first question.
        left_out: treatments under which the script fails.
        failures_are_ours: whether a failure under treatment counts as our doing; False where untreated runs fail, too.
        failed_once: two runs that were treated alike, of which one failed.
        unsteady: two runs that were treated alike, with nothing left free, and still diverge, at the earliest place
            found so far: from there on no factor can be accused, in any round.
        compared_leaves: leaves of files and prints to compare, too; None until runs agree in all that was recorded.
        is_long: the script runs long after the step at which runs diverge, so whole runs are expensive.
        known: runs of all rounds so far, by the pins of their baseline and what was released in them (None: nothing).
        failures: how many tests of suspects ended without proof.
    """

    request: CheckRequest
    pool: RunPool
    lot_rng: Random = field(default_factory=Random)
    first: list[Run] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    failures_are_ours: bool = True
    failed_once: DivergentRuns | None = None
    unsteady: DivergentRuns | None = None
    compared_leaves: Leaves | None = None
    is_long: bool = False
    known: dict[Hashable, list[Run]] = field(default_factory=dict)
    failures: int = 0

    @property
    def left(self) -> int:
        """The number of runs that may still be made."""
        return self.pool.left

    @property
    def room(self) -> int:
        """The number of runs that may be made at once: as many as fit, and no more than are left."""
        return max(1, min(self.pool.room, self.left))

    @property
    def folder(self) -> str:
        """The user's working folder."""
        return self.pool.workspace.folder

    @property
    def is_short(self) -> bool:
        """Whether the script ended within the first look: whole runs are cheap, and serve every round."""
        return bool(self.first) and self.first[0].stopped_after in (None, self.request.last_step)

    # ---- where runs differ

    def compare(self, a: Run, b: Run) -> Divergence | None:
        """Return where two runs first differ: in what was recorded, or else in their files and prints."""
        place = self.pool.compare(a, b)
        if place is not None or self.compared_leaves is None or not self.may_compare(a, b):
            return place
        return product_divergence(a, [one for one in self.pool.made.differing(a, b) if one.key in self.compared_leaves])

    def may_compare(self, a: Run, b: Run) -> bool:
        """Whether the files and prints of two runs are comparable: both succeeded, and ended at the same place."""
        ends = [run.stopped_after for run in (a, b)]
        return a.succeeded and b.succeeded and ends[0] == ends[1] and "left" not in (a.plan.begins, b.plan.begins)

    def note_unsteady(self, divergent: DivergentRuns) -> None:
        """Note two runs that were treated alike and diverge; the earliest such place counts."""
        if self.unsteady is None or divergent.divergence.position < self.unsteady.divergence.position:
            self.unsteady = divergent

    def learn_length(self, whole: Run | None, at: Divergence) -> None:
        """Note whether the script runs long after a divergence; until a whole run shows that, assume that it does."""
        self.is_long = whole is None or whole.steps > LONG_RATIO * (at.step + 1)

    # ---- runs without the treatments under which the script fails

    def batches(self, wanted: Sequence[T]) -> list[list[T]]:
        """Split a list into batches, in its order, each of as many items as runs may be made at once."""
        room = self.room
        return [list(wanted[at : at + room]) for at in range(0, len(wanted), room)]

    def by_lot(
        self, treatments: Mapping[Treatment, RunSpec], count: int, beside: Sequence[RunSpec] = ()
    ) -> Asking[tuple[list[Run], list[Lot]]]:
        """Make the runs `beside` and, at the same time, `count` runs with treatments drawn by lot; return both."""
        shares: Mapping[Treatment, float] = dict.fromkeys(treatments, 1 / len(treatments))
        drawn = [self.lot_rng.choice(list(treatments)) for _ in range(count)]
        runs = yield from self.runs_of([*beside, *(treatments[treatment] for treatment in drawn)])
        lots = [(shares, treatment, run) for treatment, run in zip(drawn, runs[len(beside) :], strict=True)]
        return runs[: len(beside)], lots

    def runs_of(self, specs: Sequence[RunSpec]) -> Asking[list[Run]]:
        """Make runs of these specs, without the treatments under which the script fails."""
        runs = yield [self._admitted(spec) for spec in specs]
        return (yield from self.retried(runs))

    def retried(self, runs: Sequence[Run]) -> Asking[list[Run]]:
        """Return the runs; one that failed because of a treatment is made again without that treatment."""
        final = list(runs)
        for number, run in enumerate(runs if self.failures_are_ours else ()):
            # A factor changed at some of its lines only may give a script two clocks that disagree: a failure then
            # says nothing about treating all of its lines.
            if any(setting.released for setting in run.plan.settings.values()):
                continue
            # A treatment already known to break the script may have broken this run, too.
            if not run.succeeded:
                run = yield from self._without_the_known(run)
            while not run.succeeded and (self._treated(run.plan) or run.plan.witness):
                # Where a pin made an operation raise, the run itself says so: no search is needed.
                raising = [name for name in self._treated(run.plan) if find(name).may_raise and run.facts.refusal]
                culprits = raising or self._stalling(run) or (yield from self._culprits(run))
                if not culprits:
                    break
                self._leave_out(culprits, run)
                (run,) = yield [self._admitted(run.plan)]
            final[number] = run
        return final

    def _stalling(self, run: Run) -> list[str]:
        return [name for name in self._treated(run.plan) if run.timed_out and find(name).may_stall]

    def is_left_out(self, name: str, mode: str) -> bool:
        """Whether the script was found to fail when this factor is treated in this mode."""
        return any((one.factor, one.mode) == (name, mode) for one in self.left_out)

    def _admitted(self, spec: RunSpec) -> RunSpec:
        kept = {name: setting for name, setting in spec.settings.items() if not self.is_left_out(name, setting.mode)}
        if spec.witness and self.is_left_out(WATCHING, WITNESSED):
            spec = replace(spec, witness=False)
        return spec if len(kept) == len(spec.settings) else replace(spec, settings=kept)

    def _without_the_known(self, run: Run) -> Asking[Run]:
        """Make a failed run again without the treatments left out by now, then without other modes of their factors."""
        if self._admitted(run.plan) != run.plan:
            (run,) = yield [self._admitted(run.plan)]
        left_out = {one.factor for one in self.left_out}
        suspects = [name for name in self._treated(run.plan) if name in left_out]
        if run.succeeded or not suspects or WATCHING in left_out:
            return run
        kept = {name: setting for name, setting in run.plan.settings.items() if name not in suspects}
        (tried,) = yield [replace(run.plan, settings=kept)]
        if not tried.succeeded:
            return run
        self._leave_out(suspects, run)
        return tried

    def _leave_out(self, names: Sequence[str], run: Run) -> None:
        for name in names:
            mode = WITNESSED if name == WATCHING else run.plan.settings[name].mode
            assert mode != "natural", name
            self.left_out.append(LeftOut(name, mode, run.ending))

    def _treated(self, spec: RunSpec) -> list[str]:
        """Return the factors treated here that the user did not pin so, those likeliest to stop the run first."""
        given = self.request.pins
        ours = [
            name
            for name, own in spec.settings.items()
            if own.mode != "natural"
            and (own.probed or name not in given or (given[name].mode, given[name].value) != (own.mode, own.value))
        ]
        return sorted(in_order(ours), key=lambda name: not find(name).may_raise)

    def _culprits(self, run: Run) -> Asking[list[str]]:
        """Return the treatments that make this run fail; empty where its failure does not depend on them."""
        if (yield from self._survives_again(run)):
            return []
        # Watching where factors enter replaces functions with ours, even where nothing is treated.
        if run.plan.witness and not (yield from self._survives(run, [])):
            return [WATCHING]
        suspects = self._treated(run.plan)
        while len(suspects) > 1:
            middle = 1 if find(suspects[0]).may_raise else len(suspects) // 2
            survives = yield from self._survives(run, suspects[:middle])
            suspects = suspects[middle:] if survives else suspects[:middle]
        # The last suspect may stop the script only together with others, or the failure was luck.
        if (yield from self._survives(run, suspects)) and (yield from self._survives_again(run)):
            return []
        return suspects

    def _survives(self, run: Run, names: Sequence[str]) -> Asking[bool]:
        """Whether the script succeeds with only these factors treated, up to the step in which it failed."""
        kept = {name: setting for name, setting in run.plan.settings.items() if name in (*names, *self.request.pins)}
        spec = replace(run.plan, role="treatments told apart", settings=kept)
        (tried,) = yield [stopping_after(spec, run.steps)]
        return bool(tried.succeeded)

    def _survives_again(self, run: Run) -> Asking[bool]:
        """Whether another run with the same treatments succeeds: then the script fails now and then by itself."""
        (again,) = yield [run.plan]
        if again.succeeded:
            self.failed_once = DivergentRuns(again.id, run.id, Divergence(run.steps, "outcome", ending=run.failure))
            self.note_unsteady(self.failed_once)
        return bool(again.succeeded)


def draws_of(lots: Sequence[Lot], results: Mapping[int, Hashable]) -> list[Draw]:
    """Return the lots as draws, each with the result of its run; runs without a result count as unchanged."""
    return [Draw(shares, drawn, results.get(run.id, UNCHANGED)) for shares, drawn, run in lots]


def product_divergence(a: Run, found: Sequence[LeafDifference]) -> Divergence | None:
    """Return the first leaf that differs between the products of two runs, as a divergence; None where none does."""
    if not found:
        return None
    leaf = found[0]
    site = a.facts.wrote.get(leaf.path)
    file = f"{shown_path(leaf.path)}{f' ({site.place})' if site else ''}" if leaf.path else leaf.key[0]
    name = f"{file}: {leaf.key[1]}" if leaf.key[1] else file
    only: Which | None = "second" if leaf.a is None else "first" if leaf.b is None else None
    # Two digests show only that the values differ.
    is_shown = leaf.a is not None and leaf.b is not None and not is_digest(leaf.a) and not is_digest(leaf.b)
    values = f"{leaf.a} and {leaf.b}" if is_shown else ""
    return Divergence(a.steps, "product", name, differing=len(found), only_in=only, ending=values)
