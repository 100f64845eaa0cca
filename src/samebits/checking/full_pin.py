"""The experiment for runs that diverge with everything pinned: do they agree with a factor held as `samebits run` does?

A check leaves free what it cannot hold without changing something else, such as addresses: every treatment changes
them, so their effect could be taken for another factor's. Where no factor can be accused, that does not matter.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from samebits.checking import plan as plans
from samebits.checking.baseline import Baseline
from samebits.checking.evidence import HELD, UNCHANGED, chance_shown, limit_after
from samebits.checking.inquiry import Asking, Lot, draws_of
from samebits.checking.round import MOST_DRAWS, Round
from samebits.checking.verdict import Cause, DivergentRuns, Evidence, Remedy, Run
from samebits.factors.catalog import CATALOG, find
from samebits.factors.context import Setting
from samebits.factors.pinning import settings_for

FIRST_RUNS, ENOUGH_ALONE = 2, 3


@dataclass
class FullPin:
    """The experiment in which one factor is held whole, and its runs.

    Attributes:
        limit: the factor is guilty if the chance is below this.
        divergent: two runs in which it was held in part.
        base: runs in which it was held whole; they agree.
        results: the results of the runs in which it was held in part, by number; equal for runs with the same bits.
        earlier: whether each of the runs that were made before the lots, and held it in part, differs from `base`.
        remedy: runs to the end, as `samebits run` makes them without any option.
    """

    factor: str
    limit: float
    divergent: DivergentRuns
    base: list[Run] = field(default_factory=list)
    results: dict[int, Hashable] = field(default_factory=dict)
    earlier: list[bool] = field(default_factory=list)
    lots: list[Lot] = field(default_factory=list)
    remedy: list[Run] = field(default_factory=list)

    @property
    def chance(self) -> float:
        """The chance that lots fit the results this well by luck."""
        return chance_shown(self.factor, draws_of(self.lots, self.results), {}, self.earlier)

    @property
    def partly(self) -> list[Run]:
        """The runs in which it was held in part, in the order in which they were made."""
        return [run for _, drawn, run in self.lots if drawn != HELD]

    @property
    def cause(self) -> Cause:
        """The factor, with the first line at which it may enter."""
        factor, lines = find(self.factor), self.base[0].facts.read_lines.get(self.factor, ())
        ids = tuple(run.id for run in self.base), tuple(run.id for run in self.partly)
        strays = sum(result is not UNCHANGED for result in self.results.values())
        return Cause(
            self.factor,
            lines[0].site if lines else None,
            factor.varies_between_runs,
            factor.explanation,
            Evidence(*ids, strays, self.chance, self.limit),
            called=lines[0].what if lines else "",
            likely=bool(lines),
            others=tuple(entry.site for entry in lines[1:]),
            divergent=self.divergent,
        )

    def tried(self, divergent: DivergentRuns | None) -> Remedy | None:
        """Return the remedy `samebits run`, None where it was not tried; `divergent`: where its runs still diverge."""
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


def try_full_pin(round_: Round) -> Asking[FullPin | None]:
    """Return the factor that makes runs agree when it is held whole; None if there is none, or the baseline agrees."""
    baseline, inquiry = round_.baseline, round_.inquiry
    unsteady = inquiry.unsteady
    partly = [factor.name for factor in CATALOG if factor.held_in_part and factor.name in baseline.plan.named("pinned")]
    if unsteady is None or not partly or inquiry.left < FIRST_RUNS:
        return None
    found, inquiry.unsteady = FullPin(partly[0], limit_after(inquiry.failures), unsteady), None
    try:
        is_guilty = yield from _is_guilty(baseline, found)
    finally:
        inquiry.unsteady = unsteady
    if not is_guilty:
        inquiry.failures += 1
        return None
    if inquiry.left >= FIRST_RUNS:
        spec = replace(plans.remedy_run(inquiry.request, settings_for(None)), as_run=True)
        found.remedy = yield from inquiry.runs_of([spec] * FIRST_RUNS)
    return found


def _is_guilty(baseline: Baseline, found: FullPin) -> Asking[bool]:
    """Draw by lot whether the factor is held whole, until it is proven guilty or no longer can be."""
    inquiry = baseline.inquiry
    whole = baseline.spare.with_settings({found.factor: Setting("pinned")})
    whole = replace(whole, role=f"{found.factor} held whole", as_run=True)
    treatments = {HELD: whole, (found.factor, 0): baseline.spare}
    found.base = yield from inquiry.runs_of([whole] * FIRST_RUNS)
    found.earlier = [baseline.differ(found.base[0], run) is not None for run in baseline.runs]
    while True:
        if len(baseline.classes(found.base)) > 1 or not all(run.succeeded for run in found.base):
            return False
        if found.chance < found.limit:
            return True
        # Where enough runs held it in part, and the lots won nothing, it does not matter, or only rarely.
        if len(found.lots) >= MOST_DRAWS or (len(found.partly) >= ENOUGH_ALONE and found.chance >= 1):
            return False
        _, lots = yield from inquiry.by_lot(treatments, inquiry.room)
        found.lots += lots
        found.base += [run for _, drawn, run in lots if drawn == HELD]
        classes = baseline.classes([found.base[0], *found.partly])
        found.results = {run.id: number or UNCHANGED for number, group in enumerate(classes) for run in group}
