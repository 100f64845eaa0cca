"""What a program reads: one JSON document with a schema name; keys are added, never taken away."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from typing import cast, get_args, get_origin, get_type_hints

from samebits.base.errors import SamebitsError
from samebits.base.printable import printable
from samebits.base.sites import Site
from samebits.checking.evidence import CONFIDENCE, detectable_rate
from samebits.checking.verdict import Cause, CheckVerdict, DivergentRuns, Origin, OriginOnRank, RunRecord, VerdictKind
from samebits.comparison.locate import Divergence
from samebits.comparison.ops import OpDivergence
from samebits.comparison.runs import Diff
from samebits.comparison.values import Distance
from samebits.factors.catalog import find
from samebits.factors.pinning import Status
from samebits.replay.runner import Replay
from samebits.report.causes import advice, evidence, excluded, remedy_state, unknown_line, unknown_what
from samebits.report.diffs import diff_notes
from samebits.report.documents import DOCUMENTS
from samebits.report.documents.checks import (
    CauseDocument,
    CheckDocument,
    FirstDivergenceDocument,
    InterruptedCheckDocument,
    RemedyDocument,
    RestsOnDocument,
)
from samebits.report.documents.diffs import DiffDocument, FirstOpDocument
from samebits.report.documents.factors import FactorsDocument
from samebits.report.documents.origins import (
    CalledAgainDocument,
    OpPlaceDocument,
    OriginDocument,
    ProducerDocument,
    ReplayDocument,
)
from samebits.report.documents.shared import (
    DistanceDocument,
    DivergenceDocument,
    ErrorDocument,
    LocationDocument,
    PlaceDocument,
    RunDocument,
    TrainedDocument,
)
from samebits.report.origins import describe_finding, describe_op, origin_rows, other_origin, site_of
from samebits.report.places import detail_of
from samebits.report.text import check_text, remedy_command
from samebits.runfolder.ops import Producer


def dumped(document: Mapping[str, object]) -> str:
    """The document as text; nothing is shortened, and NaN and infinity, which JSON has no words for, are refused."""
    return printable(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False), "\\u{:04x}")


def check_json(verdict: CheckVerdict) -> CheckDocument:
    """`samebits.check/1`."""
    return {
        "schema": "samebits.check/1",
        "verdict": verdict.kind,
        "headline": check_text(verdict).splitlines()[0],
        "command": verdict.command,
        "folder": str(verdict.home),
        "runs": [run_json(run) for run in verdict.runs],
        "varied": list(verdict.varied),
        "pinned": list(verdict.pinned),
        "trained": _trained(verdict),
        "first_divergence": _first(verdict),
        "origin": None if verdict.origin is None else origin_json(verdict.origin),
        "further_origins": [origin_json(origin) for origin in verdict.origins[1:]],
        "causes": [_cause(cause) for cause in verdict.causes] + _unknown(verdict),
        "remedy": _remedy(verdict),
        "rests_on": _rests_on(verdict),
        "steps_checked": verdict.steps_checked,
        "complete": verdict.is_complete,
        "wall_seconds": round(verdict.took_seconds, 3),
        "left_out": [{"factor": one.factor, "mode": one.mode, "why": one.why} for one in verdict.left_out],
        "untested": list(verdict.untested),
        "notes": list(verdict.notes),
        "streams": list(verdict.streams),
        "not_observed": list(verdict.not_observed),
        "interrupted": None if verdict.signal is None else _interrupted(verdict, verdict.signal),
        "error": error_json(verdict.error),
        "record": verdict.to_json(),
    }


def _trained(verdict: CheckVerdict) -> TrainedDocument:
    kind: VerdictKind = verdict.kind
    if verdict.divergent is not None:
        kind = "same" if verdict.alike else "undecided" if verdict.trained is None else "different"
    return {"verdict": kind, "first_divergence": place_if_known(verdict.trained)}


def _interrupted(verdict: CheckVerdict, number: int) -> InterruptedCheckDocument:
    return {
        "signal": signal.Signals(number).name,
        "runs": [{"id": number, "role": role} for number, role in verdict.cut_short],
    }


# The kinds of answers whose documents say why there is none.
HAS_ERRORS = frozenset(kind for kind, document in DOCUMENTS.items() if "error" in document.__annotations__)


def unanswered(kind: str, error: SamebitsError) -> dict[str, object]:
    """What could not even begin, in the shape of its answer: `kind` is a name in `DOCUMENTS`."""
    known = {
        "schema": f"samebits.{kind}/1",
        "verdict": "undecided",
        "headline": error.message,
        "failure": error.message,
        "error": error_json(error),
    }
    hints = get_type_hints(DOCUMENTS[kind])
    return {name: known[name] if name in known else _nothing(hint) for name, hint in hints.items()}


def _nothing(hint: object) -> object:
    """What stands for an answer that there is none: an empty list, null, no, or zero."""
    if get_origin(hint) is list:
        return []
    if type(None) in get_args(hint):
        return None
    assert hint in (bool, int, float), hint
    return cast("type[float]", hint)()


def error_json(error: SamebitsError | None) -> ErrorDocument | None:
    """An error as data."""
    return None if error is None else {"kind": error.kind, "message": error.message, "hint": error.hint}


def diff_json(diff: Diff) -> DiffDocument:
    """`samebits.diff/1`."""
    found = diff.comparison
    return {
        "schema": "samebits.diff/1",
        "verdict": "same" if diff.same else "different",
        "trained": {
            "verdict": "same" if found.same_training else "different",
            "first_divergence": place_if_known(found.trained),
        },
        "runs": [str(diff.a), str(diff.b)],
        "first_divergence": None if found.divergence is None else _divergence(found.divergence, diff.distance),
        "first_op": None if found.op is None else _first_op(found.op),
        "streams": list(found.streams),
        "compares_ops": found.compares_ops,
        "not_observed": list(found.not_seen),
        "notes": diff_notes(diff),
        "error": None,
    }


def _first_op(op: OpDivergence) -> FirstOpDocument:
    kind = op.row.kind
    return {
        "step": op.step,
        "index": op.index,
        "rank": op.rank,
        "finding": op.finding,
        "op": kind.op,
        "pass": kind.pass_,
        "module": kind.module,
        "location": location_if_known(site_of(kind)),
        "names": list(op.names),
        "message": describe_op(op),
    }


def factors_json(status: Status) -> FactorsDocument:
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


def run_json(run: RunRecord) -> RunDocument:
    """One run as data."""
    return {
        "id": run.id,
        "role": run.role,
        "pinned": list(run.pinned),
        "varied": list(run.varied),
        "exit_code": run.exit_code,
        "steps": run.steps,
        "ranks": run.ranks,
        "wall_seconds": round(run.wall_seconds, 3),
        "timed_out": run.timed_out,
        "stopped": run.stopped,
        "folder": str(run.folder),
    }


def _divergent(divergent: DivergentRuns | None) -> FirstDivergenceDocument | None:
    if divergent is None:
        return None
    return {**_divergence(divergent.divergence, divergent.distance), "runs": [divergent.a, divergent.b]}


def _first(verdict: CheckVerdict) -> FirstDivergenceDocument | None:
    """The place in the recorded streams; and, where the operation is known, which one it is."""
    found = _divergent(verdict.divergent)
    if found is None or verdict.origin is None:
        return found
    kind = verdict.origin.first.place.row.kind
    return {**found, "op": kind.op, "pass": kind.pass_, "location": location_if_known(site_of(kind))}


def origin_json(origin: Origin) -> OriginDocument:
    """The operation at which two runs diverge."""
    return {
        "runs": [origin.a, origin.b],
        "pairs": origin.pairs,
        **_op_place(origin.first),
        "message": describe_finding(origin),
        "summary": other_origin(origin),
        "rows": [{"label": label, "text": text} for label, text in origin_rows(origin)],
        "is_accused": origin.is_accused,
        "distance": None if origin.distance is None else distance_json(origin.distance),
        "unobserved_write": list(origin.unobserved_write),
        "changed_meanwhile": list(origin.changed_meanwhile),
        "shared": list(origin.shared),
        "replay": None if origin.replay is None else replay_json(origin.replay),
        "operands": None if origin.operands is None else str(origin.operands),
        "ranks": [_op_place(rank) for rank in origin.ranks],
    }


def _op_place(on_rank: OriginOnRank) -> OpPlaceDocument:
    place = on_rank.place
    kind = place.row.kind
    return {
        "finding": place.finding,
        "rank": place.rank,
        "step": place.step,
        "index": place.index,
        "op": kind.op,
        "pass": kind.pass_,
        "backward_of": kind.backward_of or None,
        "module": kind.module,
        "location": location_if_known(site_of(kind)),
        "names": list(place.names),
        "extra_in": place.extra_in or None,
        "extra": [{"op": row.kind.op, "location": location_if_known(site_of(row.kind))} for row in place.extra],
        "received": on_rank.is_received,
        "uninitialized": on_rank.is_uninitialized,
        "producer": None if on_rank.producer is None else _producer(on_rank.producer),
    }


def _producer(one: Producer) -> ProducerDocument:
    return {
        "step": one.step,
        "index": one.index,
        "op": one.op,
        "module": one.module,
        "path": one.path,
        "line": one.line,
        "function": one.function,
        "uninitialized": one.uninitialized,
    }


def replay_json(replay: Replay) -> CalledAgainDocument:
    """What calling an operation again showed."""
    return {
        "confirmed": replay.is_confirmed,
        "racy": replay.is_racy,
        "distinct": replay.distinct,
        "gives_recorded": replay.gives_recorded,
        "conditions": [
            {"name": one.name, "calls": one.calls, "results": one.results, "which": list(one.which)}
            for one in replay.conditions
        ],
        "script": None if replay.script is None else str(replay.script),
        "failure": replay.failure or None,
    }


def replayed_json(operands: str, replay: Replay) -> ReplayDocument:
    """`samebits.replay/1`."""
    verdict: VerdictKind = "undecided" if replay.failure else "different" if replay.is_confirmed else "same"
    return {
        "schema": "samebits.replay/1",
        "verdict": verdict,
        "operands": operands,
        **replay_json(replay),
        "error": None,
    }


def _divergence(place: Divergence, distance: Distance | None) -> DivergenceDocument:
    return {
        "step": place.step,
        "stream": place.stream,
        "name": place.name,
        "rank": place.rank,
        "ranks": list(place.ranks),
        "process": place.process,
        "op": None,
        "pass": None,
        "location": None,
        "tensors": {"differing": place.differing, "total": place.total},
        "distance": None if distance is None else distance_json(distance),
        "generators": list(place.generators),
        "detail": detail_of(place),
    }


def distance_json(distance: Distance) -> DistanceDocument:
    """How far two tensors lie apart, as data."""
    return {
        "elements": distance.elements,
        "total": distance.total,
        "max_ulp": distance.max_ulp,
        "max_relative": distance.max_relative,
    }


def _cause(cause: Cause) -> CauseDocument:
    own = cause.evidence
    return {
        "factor": cause.factor,
        "what": cause.what,
        "location": location_if_known(cause.site, cause.source),
        "locations": [location_json(site) for site in (cause.site, *cause.others) if site is not None],
        "fixed_together": cause.fixed_together,
        "shown_by": [
            {"what": shown.what, "location": location_json(shown.site), "fix": shown.fix or None}
            for shown in cause.shown_by
        ],
        "seeded_late": None if cause.seeded_late is None else location_json(cause.seeded_late),
        "likely": cause.likely,
        "confirmed": cause.confirmed,
        "distance": None if cause.distance is None else distance_json(cause.distance),
        "on_this_machine": cause.varies_between_runs,
        "evidence": evidence(cause),
        "runs": {
            "held": list(own.held),
            "released": list(own.released),
            "differing": own.strays,
            "left_alone": own.diverged,
            "chance": own.chance,
            "limit": own.limit,
        },
    }


def _unknown(verdict: CheckVerdict) -> list[CauseDocument]:
    unknown = verdict.unknown
    if unknown is None:
        return []
    return [
        {
            "factor": "unknown",
            "what": unknown_what(verdict),
            "location": None,
            "locations": [],
            "fixed_together": False,
            "likely": False,
            "confirmed": False,
            "distance": None if unknown.divergent.distance is None else distance_json(unknown.divergent.distance),
            "on_this_machine": True,
            "evidence": unknown_line(unknown).removeprefix("unknown: "),
            "runs": None,
            "seeded": [
                {"what": one.what, "values": [one.a, one.b], "location": location_json(one.site, one.source)}
                for one in unknown.seeds
            ],
            "witnessed": [
                {"factor": name, "what": entry.what, "location": location_json(entry.site, entry.source)}
                for name, entry in unknown.witnessed
            ],
            "excluded": excluded(verdict),
            "apart": list(unknown.apart),
            "next": advice(verdict),
        }
    ]


def _rests_on(verdict: CheckVerdict) -> RestsOnDocument | None:
    """What a verdict of "same" would have shown; None for the others."""
    runs = len(verdict.whole)
    if verdict.kind != "same" or runs < 2:
        return None
    return {"runs": runs, "detectable_rate": detectable_rate(runs), "confidence": CONFIDENCE}


def _remedy(verdict: CheckVerdict) -> RemedyDocument | None:
    if verdict.remedy is None:
        return None
    return {
        "pins": list(verdict.remedy.pins),
        "command": remedy_command(verdict),
        "verified": verdict.remedy.verified,
        "diverged": verdict.remedy.diverged,
        "runs": list(verdict.remedy.runs),
        "to_the_end": list(verdict.remedy.whole),
        "rest_varied": verdict.remedy.varied,
        "chance": verdict.remedy.chance,
        "state": remedy_state(verdict.remedy, verdict.is_complete),
        "code": list(verdict.remedy.code),
    }


def place_if_known(place: Divergence | None) -> PlaceDocument | None:
    """The first place at which two runs differ, without what was compared; None where they do not."""
    if place is None:
        return None
    return {
        "step": place.step,
        "stream": place.stream,
        "name": place.name,
        "rank": place.rank,
        "differing": place.differing,
        "total": place.total,
    }


def location_json(site: Site, source: str = "") -> LocationDocument:
    """A line of code."""
    return {"path": site.path, "line": site.line, "function": site.function, "source": source or site.source}


def location_if_known(site: Site | None, source: str = "") -> LocationDocument | None:
    """The same; None where no line is known."""
    return None if site is None else location_json(site, source)
