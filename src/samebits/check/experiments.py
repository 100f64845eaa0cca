"""Which run to make next, and what the runs together say: the controlled experiments behind a verdict.

    first      control, control again, varied                              do they agree?
    pinned     everything held still, twice                                is the cause something we can hold?
    released   one factor at a time changed on purpose                     which factor is it?
    sites      that factor changed at some of its call sites only          which line is it?
    remedy     the guilty factors held still, twice, to the end            does that cure it?

If the remedy's runs part again, at a later step, everything from `pinned` on is done once more, with those pins held.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.check import plan as plans
from samebits.check.attribution import Attribution
from samebits.check.first import earliest, first_parting
from samebits.check.lab import BudgetSpentError, Lab
from samebits.check.origin import MAX_PAIRS, find_origins
from samebits.check.plan import Request
from samebits.check.verdict import Cause, Origin, Parting, Remedy, Run, Verdict
from samebits.comparison.streams import cuts_of, missing, streams_of
from samebits.errors import SamebitsError
from samebits.factors.catalog import find, in_order, names
from samebits.launch.strangers import unentered
from samebits.recording.journal import read_notes

MAX_ROUNDS = 3
MAX_ORIGINS = 8


def run_check(request: Request, lab: Lab) -> Verdict:
    """Run experiments until the verdict stands or the bounds are met."""
    try:
        parting = first_parting(request, lab)
    except BudgetSpentError:
        return _verdict(request, lab, "undecided", untested=(_stopped(request),))
    if isinstance(parting, SamebitsError):
        return _verdict(request, lab, "undecided", error=parting)
    if parting is None:
        # What agrees is what was recorded; a process that nobody looked into may have done anything.
        strangers = any(unentered(run.outcome.folder) for run in lab.runs)
        return _verdict(request, lab, "undecided" if strangers else "same", notes=_bounds(request), agreed=strangers)
    return _explained(request, lab, parting)


def _explained(request: Request, lab: Lab, parting: Parting) -> Verdict:
    found = _Found()
    try:
        _explain(request, lab, parting, found)
        _take_up_cures(found)
        _locate(request, lab, parting, found)
    except BudgetSpentError:
        found.untested.append(_stopped(request))
    if not found.causes and found.unknown is None and not found.untested:
        found.notes.append("with everything pinned the runs agree, and with one factor released at a time they do too")
    return _verdict(
        request,
        lab,
        "different",
        parting=parting,
        causes=tuple(found.named()),
        unknown=found.unknown,
        origins=tuple(found.origins),
        remedy=None if found.remedy is None else replace(found.remedy, code=(*found.cures, *_code(found.causes))),
        untested=tuple(found.untested),
        notes=(*found.notes, *_bounds(request)),
    )


@dataclass
class _Found:
    """What is known so far; kept outside the search, so that a search cut short loses nothing."""

    causes: list[Cause] = field(default_factory=list)
    remedy: Remedy | None = None
    unknown: Parting | None = None
    origins: list[Origin] = field(default_factory=list)
    untested: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    cures: list[str] = field(default_factory=list)
    # Where the runs of the last remedy parted; None if they agreed.
    later: Parting | None = None

    def named(self) -> list[Cause]:
        """The causes, those first that drift; lines that only the code could cure are shown where that is needed."""
        ordered = sorted(self.causes, key=lambda cause: not cause.drifts)
        if self.cures:
            return ordered
        return [replace(one, shown_by=tuple(shown for shown in one.shown_by if not shown.cure)) for one in ordered]


def _explain(request: Request, lab: Lab, parting: Parting, found: _Found) -> None:
    """Causes and remedies in turn, until a remedy holds to the end or nobody is left to suspect."""
    at, pins = parting, list[str]()
    suspects = _suspects(request, lab, parting)
    for _ in range(MAX_ROUNDS):
        attribution = Attribution(request, lab, at.divergence, pins, suspects)
        found.untested.extend(attribution.untested)
        found.unknown = attribution.unknown
        later: Parting | None = at
        while later is not None and later.divergence.step <= at.divergence.step:
            causes = attribution.next_causes()
            if not causes:
                return
            found.causes.extend(causes)
            pins = in_order([*pins, *(cause.factor for cause in causes)])
            found.remedy = Remedy(tuple(pins), False)
            later, found.remedy = _tried(request, lab, found.remedy)
            found.unknown = found.later = later
        if later is None:
            return
        at, suspects = later, names()


def _take_up_cures(found: _Found) -> None:
    """Where data part with their keys pinned, and nothing else was found: what is carried only the code can cure."""
    later = found.later
    if later is not None and later.divergence.stream == "batch":
        found.cures = [shown.cure for cause in found.causes for shown in cause.shown_by if shown.cure]
        if found.cures:
            found.unknown = None


def _locate(request: Request, lab: Lab, parting: Parting, found: _Found) -> None:
    """The operation: of runs that part with everything pinned, or as algorithms are left alone, or if asked for."""
    if found.unknown is not None:
        at: Parting | None = found.unknown
    else:
        # Runs that part in one factor only tell more than the first ones, in which several were changed.
        shown = [cause.parting for cause in found.causes if request.level == "op" or find(cause.factor).is_mode]
        at = next(filter(None, shown), parting if request.level == "op" else None)
    if at is None or at.divergence.stream == "outcome":
        return
    a, b = (next(run.plan for run in lab.runs if run.id == number) for number in (at.a, at.b))
    most = MAX_ORIGINS if request.all_origins else 1
    for origin in find_origins(lab, a, b, at.divergence.step, most):
        found.origins.append(origin)
    if not found.origins:
        found.notes.append(f"with operations recorded, {MAX_PAIRS} pairs of runs agreed: the operation is not known")


def _suspects(request: Request, lab: Lab, parting: Parting) -> list[str]:
    """Runs that were left alone accuse any factor; a varied run accuses what was varied in it."""
    other = next(run for run in lab.runs if run.id == parting.b)
    return other.plan.named("varied") or names()


def _tried(request: Request, lab: Lab, remedy: Remedy) -> tuple[Parting | None, Remedy]:
    """The pins tried to the end of the script; a later parting is returned to be explained in its turn."""
    runs = lab.run_all(plans.remedy_runs(request, remedy.pins))
    later = earliest(runs)
    works = later is None and all(run.outcome.succeeded for run in runs)
    return later, replace(remedy, verified=works, parted=None if later is None else (later.a, later.b))


def _code(causes: Iterable[Cause]) -> tuple[str, ...]:
    """What to change in the code, each thing once."""
    lines = []
    for cause in sorted(causes, key=lambda cause: not cause.drifts):
        cure = find(cause.factor).cure
        if cause.site is None:
            cure = cure.replace(" at line {line}", "").replace(" before line {line}", " at the start")
        lines.append(cure.format(line=cause.site.line if cause.site else ""))
    return tuple(dict.fromkeys(lines))


def _stopped(request: Request) -> str:
    return f"stopped at --max-runs {request.max_runs}: give more to test the rest"


def _bounds(request: Request) -> tuple[str, ...]:
    return () if request.max_steps is None else (f"only the first {request.max_steps} steps were looked at",)


def _verdict(request: Request, lab: Lab, kind: Any, **more: Any) -> Verdict:
    full = _full(lab.runs)
    streams = streams_of(run.outcome.folder.recordings() for run in full)
    return Verdict(
        kind,
        str(request.command),
        lab.home,
        tuple(lab.runs),
        tuple(request.varied),
        tuple(in_order(request.pins)),
        streams=streams,
        not_observed=_not_observed(lab.runs, streams),
        **more,
    )


def _full(runs: Sequence[Run]) -> list[Run]:
    """Runs that took as many steps as any: others were stopped on purpose, or failed."""
    steps = max((run.steps for run in runs), default=0)
    return [run for run in runs if run.steps == steps > 0]


def _not_observed(runs: Sequence[Run], streams: Sequence[str]) -> tuple[str, ...]:
    noted = (note["what"] for run in runs for note in read_notes(run.path, "unseen"))
    lacking = missing(streams, cuts_of(run.path for run in runs)) if streams else ()
    return tuple(dict.fromkeys([*lacking, *noted]))
