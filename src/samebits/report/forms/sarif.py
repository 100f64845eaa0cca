"""`--format sarif`: SARIF 2.1.0, for what shows the findings of analyses beside the code.

Of causes and divergences only those are results that have a line: what reads SARIF wants one. The answer itself stands
in the run's properties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from samebits.base.errors import SamebitsError
from samebits.base.version import __version__
from samebits.report.answers import dumped, find_answer
from samebits.report.remarks import REMARKS, Remark, failure_remark

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"


def answer(kind: str, record: Any) -> str:
    """A result for each cause, or each entry that does not agree, that has a line."""
    of = {name: str(getattr(record, name)) for name in ("command", "lockfile") if hasattr(record, name)}
    properties = {"verdict": record.kind, "headline": find_answer(kind).told(record).headline, **of}
    return _log(REMARKS[kind](record), record.exit_code, properties)


def failure(kind: str, error: SamebitsError) -> str:
    """No results, and why."""
    properties = {"verdict": "undecided", "headline": error.message, "command": f"samebits {kind}"}
    return _log([failure_remark(error)], error.exit_code, properties)


def _log(remarks: Sequence[Remark], exit_code: int, properties: Mapping[str, object]) -> str:
    placed = [remark for remark in remarks if remark.path]
    rules = {remark.rule: remark.about for remark in reversed(placed)}
    driver = {
        "name": "samebits",
        "semanticVersion": __version__,
        "rules": [{"id": rule, "shortDescription": {"text": about}} for rule, about in rules.items()],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [_invocation(remarks, exit_code)],
        "results": [_result(remark, list(rules)) for remark in placed],
        "columnKind": "unicodeCodePoints",
        "properties": dict(properties),
    }
    return dumped({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _invocation(remarks: Sequence[Remark], exit_code: int) -> dict[str, object]:
    """Whether the analysis could be made; what has no line is told here."""
    told = [
        {"level": remark.level, "message": {"text": remark.message}, "descriptor": {"id": remark.rule}}
        for remark in remarks
        if not remark.path
    ]
    return {
        "executionSuccessful": exit_code in (0, 1),
        "exitCode": exit_code,
        **({"toolExecutionNotifications": told} if told else {}),
    }


def _result(remark: Remark, rules: Sequence[str]) -> dict[str, object]:
    own: dict[str, object] = {
        "ruleId": remark.rule,
        "ruleIndex": rules.index(remark.rule),
        "level": remark.level,
        "message": {"text": remark.message},
        "locations": [_location(remark.path, remark.line, remark.source)],
        # The same finding on a line that has moved is the same finding.
        "partialFingerprints": {"samebitsFinding/v1": _fingerprint(remark)},
    }
    if remark.others:
        own["relatedLocations"] = [_location(path, line) for path, line in remark.others]
    return own


def _location(path: str, line: int, source: str = "") -> dict[str, object]:
    pure = PurePath(path)
    where = {"uri": pure.as_uri()} if pure.is_absolute() else {"uri": quote(pure.as_posix()), "uriBaseId": _ROOT}
    region: dict[str, object] = {"startLine": line, **({"snippet": {"text": source}} if source else {})}
    return {"physicalLocation": {"artifactLocation": where, "region": region}}


def _fingerprint(remark: Remark) -> str:
    content = "\0".join([remark.rule, remark.path, remark.source])
    return blake2b(content.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
