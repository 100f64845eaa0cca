"""`--format sarif`: SARIF 2.1.0, for tools that show the findings of analyses next to the code.

Only causes and divergences with a line become results, since readers of SARIF expect one. The answer itself is in the
run's properties.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from samebits.base.errors import SamebitsError
from samebits.base.version import __version__
from samebits.report.answers import find_answer, json_text
from samebits.report.remarks import REMARKS, Remark, failure_remark

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"


def answer(kind: str, record: Any) -> str:
    """Return a log with a result for each remark that has a line."""
    names = {name: str(getattr(record, name)) for name in ("command", "lockfile") if hasattr(record, name)}
    properties = {"verdict": record.kind, "headline": find_answer(kind).told(record).headline, **names}
    return _log(REMARKS[kind](record), record.exit_code, properties)


def failure(kind: str, error: SamebitsError) -> str:
    """Return a log without results that says why there are none."""
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
    return json_text({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]})


def _invocation(remarks: Sequence[Remark], exit_code: int) -> dict[str, object]:
    """Return whether the analysis could be made, and the remarks that have no line."""
    notifications = [
        {"level": remark.level, "message": {"text": remark.message}, "descriptor": {"id": remark.rule}}
        for remark in remarks
        if not remark.path
    ]
    return {
        "executionSuccessful": exit_code in (0, 1),
        "exitCode": exit_code,
        **({"toolExecutionNotifications": notifications} if notifications else {}),
    }


def _result(remark: Remark, rules: Sequence[str]) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": remark.rule,
        "ruleIndex": rules.index(remark.rule),
        "level": remark.level,
        "message": {"text": remark.message},
        "locations": [_location(remark.path, remark.line, remark.source)],
        # A finding stays the same finding when its line moves.
        "partialFingerprints": {"samebitsFinding/v1": _fingerprint(remark)},
    }
    if remark.others:
        result["relatedLocations"] = [_location(path, line) for path, line in remark.others]
    return result


def _location(path: str, line: int, source: str = "") -> dict[str, object]:
    pure = PurePath(path)
    artifact = {"uri": pure.as_uri()} if pure.is_absolute() else {"uri": quote(pure.as_posix()), "uriBaseId": _ROOT}
    region: dict[str, object] = {"startLine": line, **({"snippet": {"text": source}} if source else {})}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


def _fingerprint(remark: Remark) -> str:
    content = "\0".join([remark.rule, remark.path, remark.source])
    return blake2b(content.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
