"""`--format junit`: one XML document as test runners write it, for tools that collect test results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from samebits.base.errors import SamebitsError
from samebits.base.printable import printable
from samebits.checking.verdict import CheckVerdict
from samebits.locking.verdict import EntriesVerified
from samebits.report.locks import entry_report
from samebits.report.text import check_report

# Characters that XML 1.0 cannot hold, not even escaped.
_UNHEARD_OF = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# The element of a case that did not pass, and how the suite counts it. For an unknown entry nothing was promised.
_ELEMENTS = {"different": "failure", "undecided": "error", "unknown": "skipped"}
_COUNTED = {"failures": "different", "errors": "undecided", "skipped": "unknown"}


class _Case(NamedTuple):
    name: str
    kind: str
    headline: str
    text: str
    seconds: float = 0.0


def answer(kind: str, record: CheckVerdict | EntriesVerified) -> str:
    """Return a suite with one case for a check, or one for each entry."""
    return _suite(f"samebits {kind}", _cases(record))


def failure(kind: str, error: SamebitsError) -> str:
    """Return a suite with one case that is an error."""
    return _suite(f"samebits {kind}", [_Case(f"samebits {kind}", "undecided", error.message, str(error))])


def _cases(record: CheckVerdict | EntriesVerified) -> list[_Case]:
    if isinstance(record, CheckVerdict):
        told, error = check_report(record), record.error
        headline = told.headline if error is None else error.message.splitlines()[0]
        return [_Case(record.command, record.kind, headline, _with_error(told.text, error), record.took_seconds)]
    cases = []
    for item in record.entries:
        told = entry_report(item, record)
        cases.append(_Case(item.name, item.kind, told.headline, _with_error(told.text, item.error), item.wall_seconds))
    return cases


def _with_error(text: str, error: SamebitsError | None) -> str:
    return text if error is None else f"{text}\n\n{error}"


def _suite(name: str, cases: Sequence[_Case]) -> str:
    counts = {word: str(sum(case.kind == kind for case in cases)) for word, kind in _COUNTED.items()}
    seconds = f"{sum(case.seconds for case in cases):.3f}"
    root = Element("testsuites")
    suite = SubElement(root, "testsuite", {"name": name, "tests": str(len(cases)), **counts, "time": seconds})
    for case in cases:
        attributes = {"classname": name.replace(" ", "."), "name": _heard(case.name), "time": f"{case.seconds:.3f}"}
        element = _ELEMENTS.get(case.kind)
        message = {} if element is None else {"message": _heard(case.headline)}
        SubElement(SubElement(suite, "testcase", attributes), element or "system-out", message).text = _heard(case.text)
    indent(root, "")
    return printable(f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, "unicode")}', "&#{};")


def _heard(text: str) -> str:
    return _UNHEARD_OF.sub("\ufffd", text)
