"""Runs that diverge with everything pinned: do they agree where a factor is held whole, as `samebits run` holds it?

A check leaves free what it cannot hold without moving something else, such as addresses: whatever is treated moves
them, so they could be taken for another factor's doing. Where nobody can be accused, that is no matter any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from samebits.checking import plan as plans
from samebits.checking.asking import Asking
from samebits.checking.evidence import RATES, Draw, chance_by_lot, limit_after
from samebits.checking.held import Held
from samebits.checking.round import Round
from samebits.checking.verdict import Cause, DivergentRuns, Evidence, Remedy, Run
from samebits.factors.catalog import CATALOG, find
from samebits.factors.pinning import settings_for

FIRST_RUNS, ENOUGH_ALONE, MOST_DRAWS = 2, 3, 24


@dataclass
class HeldWhole:
    """What agrees once a factor is held whole.

    Attributes:
        factor: its name.
        limit: below which chance it is guilty.
        divergent: two runs in which it was held in part.
        base: runs in which it was held whole; they agree.
        alone: runs in which it was held in part, with everything else as in the others.
        classes: the numbers of these, those with the same bits together.
        draws: by lot, which of both was made.
        remedy: to the end, as `samebits run` does it without any option.
    """

    factor: str
    limit: float
    divergent: DivergentRuns
    base: list[Run]
    alone: list[Run] = field(default_factory=list)
    classes: list[list[int]] = field(default_factory=list)
    draws: list[Run] = field(default_factory=list)
    remedy: list[Run] = field(default_factory=list)

    @property
    def chance(self) -> float:
        """That lots would have fitted so well by luck."""
        results = {number: place for place, own in enumerate(self.classes) for number in own}
        shares = {self.factor: 0.5}
        draws = [Draw(shares, self.factor if run.id in results else "", results.get(run.id)) for run in self.draws]
        return chance_by_lot(self.factor, draws, range(len(self.classes)), RATES)

    @property
    def cause(self) -> Cause:
        """The factor, with the first line at which it may enter."""
        own, lines = find(self.factor), self.base[0].facts.read_lines.get(self.factor, ())
        ids = tuple(run.id for run in self.base), tuple(run.id for run in self.alone)
        strays = len(self.alone) - max(map(len, self.classes), default=0)
        return Cause(
            self.factor,
            lines[0].site if lines else None,
            own.varies_between_runs,
            own.explanation,
            Evidence(*ids, strays, self.chance, self.limit, diverged=True),
            called=lines[0].what if lines else "",
            likely=bool(lines),
            others=tuple(entry.site for entry in lines[1:]),
            divergent=self.divergent,
        )

    def cure(self, divergent: DivergentRuns | None) -> Remedy | None:
        """`samebits run`; `divergent` is where its runs diverge all the same."""
        if not self.remedy:
            return None
        ids = tuple(run.id for run in self.remedy)
        fails = next((run for run in self.remedy if not run.succeeded), None)
        return Remedy(
            tuple(settings_for(None)),
            divergent is None and fails is None and self.cause.confirmed,
            diverged=None if divergent is None else (divergent.a, divergent.b),
            runs=ids,
            whole=ids,
            chance=self.chance,
            failure="" if fails is None else f"run {fails.id}",
        )


def held_whole(round_: Round) -> Asking[HeldWhole | None]:
    """The factor that cures as soon as it is held whole; None where there is none, or held runs agree."""
    held, inquiry = round_.held, round_.inquiry
    unsteady = inquiry.unsteady
    partly = [factor.name for factor in CATALOG if factor.held_in_part and factor.name in held.plan.named("pinned")]
    if unsteady is None or not partly or inquiry.left() < FIRST_RUNS:
        return None
    inquiry.unsteady = None
    try:
        found = yield from _drawn(held, HeldWhole(partly[0], limit_after(inquiry.failures), unsteady, []))
    finally:
        inquiry.unsteady = unsteady
    if found is None:
        inquiry.failures += 1
    elif inquiry.left() >= FIRST_RUNS:
        own = replace(plans.remedy_run(inquiry.request, settings_for(None)), as_run=True)
        found.remedy = yield from inquiry.runs_of([own] * FIRST_RUNS)
    return found


def _drawn(held: Held, found: HeldWhole) -> Asking[HeldWhole | None]:
    """Draw by lot whether it is held whole, until it is guilty; None where that comes to nothing."""
    inquiry = held.inquiry
    whole = replace(held.spare, role=f"{found.factor} held whole", as_run=True)
    found.base = yield from inquiry.runs_of([whole] * FIRST_RUNS)
    while True:
        if len(held.classes(found.base)) > 1 or not all(run.succeeded for run in found.base):
            return None
        if found.chance < found.limit:
            return found
        # Once some were held in part, lots that have won nothing say that it is no matter, or a rare one.
        if len(found.draws) >= MOST_DRAWS or (len(found.alone) >= ENOUGH_ALONE and found.chance >= 1):
            return None
        lots = [inquiry.luck.choice([whole, held.spare]) for _ in range(inquiry.room())]
        runs = yield from inquiry.runs_of(lots)
        found.draws += runs
        found.base += [run for run in runs if run.plan.as_run]
        found.alone += [run for run in runs if not run.plan.as_run]
        found.classes = [[run.id for run in own] for own in held.classes(found.alone)]
