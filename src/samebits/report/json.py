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
from samebits.checking.facts import Shown
from samebits.checking.verdict import Cause, CheckVerdict, Origin, OriginOnRank, Reseeded, RunRecord, VerdictKind
from samebits.comparison.locate import Divergence
from samebits.comparison.ops import OpDivergence
from samebits.comparison.runs import Diff
from samebits.comparison.values import Distance
from samebits.factors.catalog import find
from samebits.factors.pinning import FactorStatus, Status
from samebits.replay.runner import Replay
from samebits.report.causes import advice, evidence, excluded, remedy_state, unknown_line, unknown_what
from samebits.report.diffs import diff_notes
from samebits.report.documents import DOCUMENTS
from samebits.report.documents.checks import (
    CauseDocument,
    CheckDocument,
    EvidenceDocument,
    InterruptedCheckDocument,
    RemedyDocument,
    RestsOnDocument,
    SeededDocument,
    ShownDocument,
)
from samebits.report.documents.diffs import DiffDocument, FirstOpDocument
from samebits.report.documents.factors import FactorDocument, FactorsDocument
from samebits.report.documents.origins import (
    CalledAgainDocument,
    OpDocument,
    OpPlaceDocument,
    OriginDocument,
    ReplayDocument,
)
from samebits.report.documents.shared import (
    DistanceDocument,
    DivergenceDocument,
    ErrorDocument,
    LocationDocument,
    RunDocument,
    TrainedDocument,
)
from samebits.report.encoding import encoded, otherwise
from samebits.report.origins import describe_finding, describe_op, origin_rows, other_origin, site_of
from samebits.report.places import detail_of
from samebits.report.text import check_text, remedy_command


def dumped(document: Mapping[str, object]) -> str:
    """The document as text; nothing is shortened, and NaN and infinity, which JSON has no words for, are refused."""
    return printable(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False), "\\u{:04x}")


def check_json(verdict: CheckVerdict) -> CheckDocument:
    """`samebits.check/1`."""
    return encoded(
        CheckDocument,
        verdict,
        schema="samebits.check/1",
        verdict=verdict.kind,
        headline=check_text(verdict).splitlines()[0],
        folder=verdict.home,
        trained=_trained(verdict),
        first_divergence=_first(verdict),
        further_origins=verdict.origins[1:],
        causes=[*verdict.causes, *_unknown(verdict)],
        remedy=_remedy(verdict),
        rests_on=_rests_on(verdict),
        complete=verdict.is_complete,
        wall_seconds=round(verdict.took_seconds, 3),
        interrupted=None if verdict.signal is None else _interrupted(verdict, verdict.signal),
        record=verdict.to_json(),
    )


def _trained(verdict: CheckVerdict) -> Mapping[str, object]:
    kind: VerdictKind = verdict.kind
    if verdict.divergent is not None:
        kind = "same" if verdict.alike else "undecided" if verdict.trained is None else "different"
    return encoded(TrainedDocument, None, verdict=kind, first_divergence=verdict.trained)


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
        "error": encoded(ErrorDocument, error),
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


def diff_json(diff: Diff) -> DiffDocument:
    """`samebits.diff/1`."""
    found = diff.comparison
    trained = "same" if found.same_training else "different"
    return encoded(
        DiffDocument,
        found,
        schema="samebits.diff/1",
        verdict="same" if diff.same else "different",
        trained=encoded(TrainedDocument, None, verdict=trained, first_divergence=found.trained),
        runs=[str(diff.a), str(diff.b)],
        first_divergence=None if found.divergence is None else _divergence(found.divergence, diff.distance),
        first_op=found.op,
        not_observed=found.not_seen,
        notes=diff_notes(diff),
        error=None,
    )


@otherwise(FirstOpDocument)
def _first_op(op: OpDivergence) -> Mapping[str, object]:
    kind = op.row.kind
    named = {"op": kind.op, "pass": kind.pass_, "module": kind.module, "location": site_of(kind)}
    return {**named, "message": describe_op(op)}


def factors_json(status: Status) -> FactorsDocument:
    """`samebits.factors/1`."""
    return encoded(FactorsDocument, None, schema="samebits.factors/1", factors=[*status])


@otherwise(FactorDocument)
def _factor(one: FactorStatus) -> Mapping[str, object]:
    seen, factor = one.observation, find(one.name)
    return {
        "in_effect": seen.value,
        "held": seen.held,
        "can_pin": seen.can_pin,
        "reason": seen.reason,
        "too_late_since": factor.too_late,
        "pinned_by_default": factor.pinned_by_default,
        "varied_by_default": factor.varied_by_default,
    }


@otherwise(RunDocument)
def _run(run: RunRecord) -> Mapping[str, object]:
    return {"wall_seconds": round(run.wall_seconds, 3)}


def _first(verdict: CheckVerdict) -> Mapping[str, object] | None:
    """The place in the recorded streams; and, where the operation is known, which one it is."""
    divergent = verdict.divergent
    if divergent is None:
        return None
    found = {**_divergence(divergent.divergence, divergent.distance), "runs": [divergent.a, divergent.b]}
    if verdict.origin is None:
        return found
    kind = verdict.origin.first.place.row.kind
    site = site_of(kind)
    location = None if site is None else encoded(LocationDocument, site)
    return {**found, "op": kind.op, "pass": kind.pass_, "location": location}


def _divergence(place: Divergence, distance: Distance | None) -> Mapping[str, object]:
    tensors = {"differing": place.differing, "total": place.total}
    more: dict[str, object] = {"op": None, "pass": None, "location": None, "detail": detail_of(place)}
    return encoded(DivergenceDocument, place, tensors=tensors, distance=distance, **more)


@otherwise(OriginDocument)
def _origin(origin: Origin) -> Mapping[str, object]:
    return {
        **_op_place(origin.first),
        "runs": [origin.a, origin.b],
        "message": describe_finding(origin),
        "summary": other_origin(origin),
        "rows": [{"label": label, "text": text} for label, text in origin_rows(origin)],
    }


@otherwise(OpPlaceDocument)
def _op_place(on_rank: OriginOnRank) -> Mapping[str, object]:
    place = on_rank.place
    kind = place.row.kind
    return {
        **{name: getattr(place, name) for name in ("finding", "rank", "step", "index", "names")},
        "op": kind.op,
        "pass": kind.pass_,
        "backward_of": kind.backward_of or None,
        "module": kind.module,
        "location": site_of(kind),
        "extra_in": place.extra_in or None,
        "extra": [encoded(OpDocument, row.kind, location=site_of(row.kind)) for row in place.extra],
        "received": on_rank.is_received,
        "uninitialized": on_rank.is_uninitialized,
        "producer": on_rank.producer,
    }


@otherwise(CalledAgainDocument)
def _called_again(replay: Replay) -> Mapping[str, object]:
    return {"confirmed": replay.is_confirmed, "racy": replay.is_racy, "failure": replay.failure or None}


def replayed_json(operands: str, replay: Replay) -> ReplayDocument:
    """`samebits.replay/1`."""
    verdict: VerdictKind = "undecided" if replay.failure else "different" if replay.is_confirmed else "same"
    own = {"schema": "samebits.replay/1", "verdict": verdict, "operands": operands, "error": None}
    return encoded(ReplayDocument, replay, **_called_again(replay), **own)


@otherwise(CauseDocument)
def _cause(cause: Cause) -> Mapping[str, object]:
    own, site = cause.evidence, cause.site
    return {
        "location": None if site is None else _located(site, cause.source),
        "locations": [one for one in (site, *cause.others) if one is not None],
        "on_this_machine": cause.varies_between_runs,
        "evidence": evidence(cause),
        "runs": encoded(EvidenceDocument, own, differing=own.strays, left_alone=own.diverged),
    }


@otherwise(ShownDocument)
def _shown(shown: Shown) -> Mapping[str, object]:
    return {"location": shown.site, "fix": shown.fix or None}


def _unknown(verdict: CheckVerdict) -> list[CauseDocument]:
    unknown = verdict.unknown
    if unknown is None:
        return []
    distance = unknown.divergent.distance
    return [
        {
            "factor": "unknown",
            "what": unknown_what(verdict),
            "location": None,
            "locations": [],
            "fixed_together": False,
            "likely": False,
            "confirmed": False,
            "distance": None if distance is None else encoded(DistanceDocument, distance),
            "on_this_machine": True,
            "evidence": unknown_line(unknown).removeprefix("unknown: "),
            "runs": None,
            "seeded": [encoded(SeededDocument, one) for one in unknown.seeds],
            "witnessed": [
                {"factor": name, "what": entry.what, "location": _located(entry.site, entry.source)}
                for name, entry in unknown.witnessed
            ],
            "excluded": excluded(verdict),
            "apart": list(unknown.apart),
            "next": advice(verdict),
        }
    ]


@otherwise(SeededDocument)
def _seeded(one: Reseeded) -> Mapping[str, object]:
    return {"values": [one.a, one.b], "location": _located(one.site, one.source)}


def _located(site: Site, source: str) -> LocationDocument:
    """A line of code; as it was when it ran, where that is known."""
    return encoded(LocationDocument, site, source=source or site.source)


def _rests_on(verdict: CheckVerdict) -> RestsOnDocument | None:
    """What a verdict of "same" would have shown; None for the others."""
    runs = len(verdict.whole)
    if verdict.kind != "same" or runs < 2:
        return None
    return {"runs": runs, "detectable_rate": detectable_rate(runs), "confidence": CONFIDENCE}


def _remedy(verdict: CheckVerdict) -> RemedyDocument | None:
    remedy = verdict.remedy
    if remedy is None:
        return None
    return encoded(
        RemedyDocument,
        remedy,
        command=remedy_command(verdict),
        to_the_end=remedy.whole,
        rest_varied=remedy.varied,
        state=remedy_state(remedy, verdict.is_complete),
    )
