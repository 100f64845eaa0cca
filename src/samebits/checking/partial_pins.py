"""Runs that diverge with everything pinned: do they agree where a factor is held whole, as `samebits run` holds it?

A check leaves free what it cannot hold without moving something else, such as addresses: whatever is treated moves
them, so they could be taken for another factor's doing. Where no factor can be accused, that is no matter any more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from samebits.checking import plan as plans
from samebits.checking.evidence import HELD, chance_left_alone, limit_after
from samebits.checking.inquiry import Asking, Lot, draws_of
from samebits.checking.round import MOST_DRAWS, Round
from samebits.checking.suspects import Baseline
from samebits.checking.verdict import Cause, DivergentRuns, Evidence, Remedy, Run
from samebits.factors.catalog import CATALOG, find
from samebits.factors.context import Setting
from samebits.factors.pinning import settings_for

FIRST_RUNS, ENOUGH_ALONE = 2, 3


@dataclass
class WholePin:
    """What agrees once a factor is held whole.

    Attributes:
        limit: below which chance it is guilty.
        divergent: two runs in which it was held in part.
        base: runs in which it was held whole; they agree.
        classes: runs in which it was held in part, those with the same bits together.
        remedy: runs to the end, as `samebits run` makes them without any option.
    """

    factor: str
    limit: float
    divergent: DivergentRuns
    base: list[Run] = field(default_factory=list)
    classes: list[list[Run]] = field(default_factory=list)
    lots: list[Lot] = field(default_factory=list)
    remedy: list[Run] = field(default_factory=list)

    @property
    def chance(self) -> float:
        """That lots would have fitted so well by luck."""
        results = {run.id: number for number, own in enumerate(self.classes) for run in own}
        return chance_left_alone(self.factor, draws_of(self.lots, results), {})

    @property
    def partly(self) -> list[Run]:
        """Runs in which it was held in part, as they were made."""
        return [run for _, drawn, run in self.lots if drawn != HELD]

    @property
    def cause(self) -> Cause:
        """The factor, with the first line at which it may enter."""
        own, lines = find(self.factor), self.base[0].facts.read_lines.get(self.factor, ())
        ids = tuple(run.id for run in self.base), tuple(run.id for run in self.partly)
        strays = len(self.partly) - max(map(len, self.classes), default=0)
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

    def tried(self, divergent: DivergentRuns | None) -> Remedy | None:
        """The remedy `samebits run`; `divergent` is where its runs still diverge."""
        if not self.remedy:
            return None
        ids = tuple(run.id for run in self.remedy)
        failure = next((f"run {run.id} {run.ending}" for run in self.remedy if not run.succeeded), "")
        return Remedy(
            tuple(settings_for(None)),
            divergent is None and not failure and self.cause.confirmed,
            diverged=None if divergent is None else (divergent.a, divergent.b),
            runs=ids,
            whole=ids,
            chance=self.chance,
            failure=failure,
        )


def whole_pin(round_: Round) -> Asking[WholePin | None]:
    """The factor that fixes it as soon as it is held whole; None where there is none, or the baseline agrees."""
    baseline, inquiry = round_.baseline, round_.inquiry
    unsteady = inquiry.unsteady
    partly = [factor.name for factor in CATALOG if factor.held_in_part and factor.name in baseline.plan.named("pinned")]
    if unsteady is None or not partly or inquiry.left < FIRST_RUNS:
        return None
    found, inquiry.unsteady = WholePin(partly[0], limit_after(inquiry.failures), unsteady), None
    try:
        is_guilty = yield from _is_guilty(baseline, found)
    finally:
        inquiry.unsteady = unsteady
    if not is_guilty:
        inquiry.failures += 1
        return None
    if inquiry.left >= FIRST_RUNS:
        own = replace(plans.remedy_run(inquiry.request, settings_for(None)), as_run=True)
        found.remedy = yield from inquiry.runs_of([own] * FIRST_RUNS)
    return found


def _is_guilty(baseline: Baseline, found: WholePin) -> Asking[bool]:
    """Draw by lot whether it is held whole, until it is guilty, or that comes to nothing."""
    inquiry = baseline.inquiry
    whole = baseline.spare.with_settings({found.factor: Setting("pinned")})
    whole = replace(whole, role=f"{found.factor} held whole", as_run=True)
    treatments = {HELD: whole, (found.factor, 0): baseline.spare}
    found.base = yield from inquiry.runs_of([whole] * FIRST_RUNS)
    while True:
        if len(baseline.classes(found.base)) > 1 or not all(run.succeeded for run in found.base):
            return False
        if found.chance < found.limit:
            return True
        # Once some were held in part, lots that have won nothing say that it is no matter, or a rare one.
        if len(found.lots) >= MOST_DRAWS or (len(found.partly) >= ENOUGH_ALONE and found.chance >= 1):
            return False
        _, lots = yield from inquiry.by_lot(treatments, inquiry.room)
        found.lots += lots
        found.base += [run for _, drawn, run in lots if drawn == HELD]
        found.classes = baseline.classes(found.partly)
