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
from dataclasses import replace
from typing import Any

from samebits.check import plan as plans
from samebits.check.attribution import Findings, find_causes
from samebits.check.first import earliest, first_parting
from samebits.check.lab import BudgetSpentError, Lab
from samebits.check.plan import Request
from samebits.check.verdict import Cause, Parting, Remedy, Run, Verdict
from samebits.errors import SamebitsError
from samebits.factors.catalog import find, in_order
from samebits.record.journal import read_notes

MAX_ROUNDS = 3


def run_check(request: Request, lab: Lab) -> Verdict:
    """Run experiments until the verdict stands or the bounds are met."""
    try:
        parting = first_parting(request, lab)
    except BudgetSpentError:
        return _verdict(request, lab, "undecided", untested=(_stopped(request),))
    if isinstance(parting, SamebitsError):
        return _verdict(request, lab, "undecided", error=parting)
    if parting is None:
        return _verdict(request, lab, "same", notes=_bounds(request))
    return _explained(request, lab, parting)


def _explained(request: Request, lab: Lab, parting: Parting) -> Verdict:
    findings, at = Findings(), parting
    pins: list[str] = []
    remedy: Remedy | None = None
    try:
        for _ in range(MAX_ROUNDS):
            new = find_causes(request, lab, at.divergence, pins, findings)
            if not new:
                break
            findings.causes.extend(new)
            pins = in_order([*pins, *(cause.factor for cause in new)])
            remedy = Remedy(tuple(pins), False)
            later, remedy = _tried(request, lab, remedy)
            findings.unknown = later
            if later is None:
                break
            at = later
    except BudgetSpentError:
        findings.untested.append(_stopped(request))
    return _verdict(
        request,
        lab,
        "different",
        parting=parting,
        causes=tuple(sorted(findings.causes, key=lambda cause: not cause.drifts)),
        unknown=findings.unknown,
        remedy=None if remedy is None else replace(remedy, code=_code(findings.causes)),
        untested=tuple(findings.untested),
        notes=(*findings.notes, *_bounds(request)),
    )


def _tried(request: Request, lab: Lab, remedy: Remedy) -> tuple[Parting | None, Remedy]:
    """The pins tried to the end of the script; a later parting is returned to be explained in its turn."""
    runs = lab.run_all(plans.remedy_runs(request, remedy.pins))
    later = earliest(runs)
    works = later is None and all(run.outcome.succeeded for run in runs)
    return later, replace(remedy, verified=works)


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
    return Verdict(
        kind,
        str(request.command),
        lab.home,
        tuple(lab.runs),
        tuple(request.varied),
        tuple(in_order(request.pins)),
        not_observed=_not_observed(lab.runs),
        **more,
    )


def _not_observed(runs: Sequence[Run]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(note["what"] for run in runs for note in read_notes(run.path, "unseen")))
