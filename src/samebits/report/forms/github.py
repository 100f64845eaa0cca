"""`--format github`: annotations of GitHub Actions at the lines that they are about, then the answer for people."""

from __future__ import annotations

import re

from samebits.base.errors import SamebitsError
from samebits.base.printable import printable
from samebits.report.answers import find_answer
from samebits.report.remarks import REMARKS, Remark, failure_remark

# Level → its name at GitHub.
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}

# GitHub takes a log line for a command if it begins with `::`, after any space, or, in the older form, holds `##[`.
_COMMAND = re.compile(r"(?<!\S)::|##\[")


def answer(kind: str, record: object) -> str:
    """Return an annotation for each remark (a cause, an entry that differs, a finding), then the answer for the log."""
    text = _COMMAND.sub(lambda found: " ".join(found[0]), printable(find_answer(kind).told(record).text))
    remarks = REMARKS[kind](record)
    return "\n".join([*(_annotation(remark, f"samebits {kind}: {remark.rule}") for remark in remarks), text])


def failure(kind: str, error: SamebitsError) -> str:
    """Return one annotation, without a line."""
    return _annotation(failure_remark(error), f"samebits {kind}")


def _annotation(remark: Remark, title: str) -> str:
    place = {"file": remark.path, "line": str(remark.line)} if remark.path else {}
    named = ",".join(f"{name}={_property(value)}" for name, value in (place | {"title": title}).items())
    return f"::{_LEVELS[remark.level]} {named}::{_data(remark.message)}"


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
