"""`--format junit`: one XML document as test runners write it, for what collects the results of tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

from samebits.base.errors import SamebitsError
from samebits.base.printable import printable
from samebits.checking.verdict import CheckVerdict
from samebits.locking.verdict import EntriesVerified
from samebits.report.locks import entry_told
from samebits.report.text import check_told

IS_DATA = True
# XML 1.0 has no way to hold these, not even escaped.
_UNHEARD_OF = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# What a case that did not pass holds, and how the suite counts it. Of what is unknown nothing was promised.
_ELEMENTS = {"different": "failure", "undecided": "error", "unknown": "skipped"}
_COUNTED = {"failures": "different", "errors": "undecided", "skipped": "unknown"}


class _Case(NamedTuple):
    name: str
    kind: str
    headline: str
    text: str
    seconds: float = 0.0


def answer(kind: str, record: CheckVerdict | EntriesVerified) -> str:
    """One case for a check, or one for each entry."""
    return _suite(f"samebits {kind}", _cases(record))


def failure(kind: str, error: SamebitsError) -> str:
    """One case that is an error."""
    return _suite(f"samebits {kind}", [_Case(f"samebits {kind}", "undecided", error.message, str(error))])


def _cases(record: CheckVerdict | EntriesVerified) -> list[_Case]:
    if isinstance(record, CheckVerdict):
        told, error = check_told(record), record.error
        headline = told.headline if error is None else error.message.splitlines()[0]
        return [_Case(record.command, record.kind, headline, _with_error(told.text, error), record.took_seconds)]
    cases = []
    for one in record.entries:
        told = entry_told(one, record)
        cases.append(_Case(one.name, one.kind, told.headline, _with_error(told.text, one.error), one.wall_seconds))
    return cases


def _with_error(text: str, error: SamebitsError | None) -> str:
    return text if error is None else f"{text}\n\n{error}"


def _suite(name: str, cases: Sequence[_Case]) -> str:
    numbers = " ".join(f'{word}="{sum(case.kind == kind for case in cases)}"' for word, kind in _COUNTED.items())
    seconds = f'time="{sum(case.seconds for case in cases):.3f}"'
    lines = [f'<testsuite name={quoteattr(name)} tests="{len(cases)}" {numbers} {seconds}>']
    body = "\n".join(_case(name.replace(" ", "."), case) for case in cases)
    parts = ['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>", *lines, body, "</testsuite>\n</testsuites>"]
    return printable("\n".join(parts), "&#{};")


def _case(owner: str, case: _Case) -> str:
    head = f'<testcase classname={_attribute(owner)} name={_attribute(case.name)} time="{case.seconds:.3f}"'
    element = _ELEMENTS.get(case.kind)
    if element is None:
        return f"{head}>\n<system-out>{_text(case.text)}</system-out>\n</testcase>"
    message = f"<{element} message={_attribute(case.headline)}>{_text(case.text)}</{element}>"
    return f"{head}>\n{message}\n</testcase>"


def _text(text: str) -> str:
    return escape(_UNHEARD_OF.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_UNHEARD_OF.sub("\ufffd", text))
