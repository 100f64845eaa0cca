"""What a program reads: one JSON document with a schema name; keys are added, never taken away."""

from __future__ import annotations

import json
from typing import Any

from samebits.check.verdict import Cause, Parting, Run, Verdict
from samebits.compare.locate import Divergence
from samebits.compare.values import Distance
from samebits.errors import SamebitsError
from samebits.factors.catalog import find
from samebits.factors.sites import Site
from samebits.pinning import Status
from samebits.report.text import remedy_command


def dumped(document: dict[str, Any]) -> str:
    """The document as text; nothing is shortened."""
    return json.dumps(document, indent=2, ensure_ascii=False)


def check_json(verdict: Verdict) -> dict[str, Any]:
    """`samebits.check/1`."""
    return {
        "schema": "samebits.check/1",
        "verdict": verdict.kind,
        "command": verdict.command,
        "folder": str(verdict.home),
        "runs": [_run(run) for run in verdict.runs],
        "varied": list(verdict.varied),
        "pinned": list(verdict.pinned),
        "first_divergence": _parting(verdict.parting),
        "causes": [_cause(cause) for cause in verdict.causes] + _unknown(verdict),
        "remedy": _remedy(verdict),
        "untested": list(verdict.untested),
        "notes": list(verdict.notes),
        "not_observed": list(verdict.not_observed),
        "error": error_json(verdict.error),
    }


def failed_check_json(error: SamebitsError) -> dict[str, Any]:
    """A check that could not even begin, in the same shape."""
    empty: dict[str, Any] = {
        name: [] for name in ("runs", "varied", "pinned", "causes", "untested", "notes", "not_observed")
    }
    return {
        "schema": "samebits.check/1",
        "verdict": "undecided",
        "command": None,
        "folder": None,
        "first_divergence": None,
        "remedy": None,
        **empty,
        "error": error_json(error),
    }


def error_json(error: SamebitsError | None) -> dict[str, Any] | None:
    """An error as data."""
    return None if error is None else {"kind": error.kind, "message": error.message, "hint": error.hint}


def diff_json(a: str, b: str, place: Divergence | None, distance: Distance | None, notes: list[str]) -> dict[str, Any]:
    """`samebits.diff/1`."""
    return {
        "schema": "samebits.diff/1",
        "verdict": "same" if place is None else "different",
        "runs": [a, b],
        "first_divergence": None if place is None else _divergence(place, distance),
        "notes": notes,
        "error": None,
    }


def failed_diff_json(error: SamebitsError) -> dict[str, Any]:
    """Two runs that could not be compared, in the same shape."""
    empty = diff_json("", "", None, None, [])
    return {**empty, "verdict": "undecided", "runs": [], "error": error_json(error)}


def factors_json(status: Status) -> dict[str, Any]:
    """`samebits.factors/1`."""
    return {
        "schema": "samebits.factors/1",
        "factors": [
            {
                "name": factor.name,
                "scope": factor.scope,
                "summary": factor.summary,
                "in_effect": factor.observation.value,
                "held": factor.observation.held,
                "can_pin": factor.observation.can_pin,
                "reason": factor.observation.reason,
                "too_late_since": find(factor.name).too_late,
                "pinned_by_default": find(factor.name).pinned_by_default,
                "varied_by_default": find(factor.name).varied_by_default,
            }
            for factor in status
        ],
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "role": run.plan.role,
        "pinned": run.plan.named("pinned"),
        "varied": run.plan.named("varied"),
        "exit_code": run.outcome.exit_code,
        "steps": run.steps,
        "wall_seconds": round(run.outcome.wall_seconds, 3),
        "timed_out": run.outcome.timed_out,
        "stopped": run.outcome.stopped,
        "folder": str(run.path),
    }


def _parting(parting: Parting | None) -> dict[str, Any] | None:
    if parting is None:
        return None
    return {**_divergence(parting.divergence, parting.distance), "runs": [parting.a, parting.b]}


def _divergence(place: Divergence, distance: Distance | None) -> dict[str, Any]:
    return {
        "step": place.step,
        "stream": place.stream,
        "name": place.name,
        "rank": place.rank,
        "op": None,
        "pass": None,
        "location": None,
        "tensors": {"differing": place.differing, "total": place.total},
        "distance": None if distance is None else _distance(distance),
        "generators": list(place.generators),
        "detail": place.detail,
    }


def _distance(distance: Distance) -> dict[str, Any]:
    return {
        "elements": distance.elements,
        "total": distance.total,
        "max_ulp": distance.max_ulp,
        "max_relative": distance.max_relative,
    }


def _cause(cause: Cause) -> dict[str, Any]:
    return {
        "factor": cause.factor,
        "what": cause.what,
        "location": _location(cause.site),
        "locations": [_location(site) for site in (cause.site, *cause.others) if site is not None],
        "likely": cause.likely,
        "confirmed": cause.confirmed,
        "distance": None if cause.distance is None else _distance(cause.distance),
        "on_this_machine": cause.drifts,
        "evidence": cause.evidence,
    }


def _unknown(verdict: Verdict) -> list[dict[str, Any]]:
    if verdict.unknown is None:
        return []
    place = verdict.unknown.divergence
    runs = f"runs {verdict.unknown.a} and {verdict.unknown.b}"
    evidence = f"everything pinned, {runs} part at step {place.step}, stream {place.stream}"
    return [
        {
            "factor": "unknown",
            "what": "an operation whose result depends on timing, or something outside the catalogue",
            "location": None,
            "locations": [],
            "likely": False,
            "confirmed": False,
            "distance": None if verdict.unknown.distance is None else _distance(verdict.unknown.distance),
            "on_this_machine": True,
            "evidence": evidence,
        }
    ]


def _remedy(verdict: Verdict) -> dict[str, Any] | None:
    if verdict.remedy is None:
        return None
    return {
        "pins": list(verdict.remedy.pins),
        "command": remedy_command(verdict),
        "verified": verdict.remedy.verified,
        "code": list(verdict.remedy.code),
    }


def _location(site: Site | None) -> dict[str, Any] | None:
    return None if site is None else {**site.as_dict(), "source": site.source}
