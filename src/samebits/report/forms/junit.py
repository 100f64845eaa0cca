"""`--format junit`: one XML document as test runners write it, for what collects the results of tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from samebits.base.errors import SamebitsError
from samebits.base.printable import printable
from samebits.report.remarks import CASES, Case

IS_DATA = True
# XML 1.0 has no way to hold these, not even escaped.
_UNHEARD_OF = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENTS = {"failed": "failure", "broken": "error", "skipped": "skipped"}


def answer(kind: str, record: object) -> str:
    """One case for a check, or one for each entry; what is unknown here was skipped."""
    return _suite(f"samebits {kind}", CASES[kind](record))


def failure(kind: str, error: SamebitsError) -> str:
    """One case that is an error."""
    return _suite(f"samebits {kind}", [Case(f"samebits {kind}", "broken", error.message, str(error))])


def _suite(name: str, cases: Sequence[Case]) -> str:
    counts = {word: sum(case.outcome == outcome for case in cases) for outcome, word in _COUNTED.items()}
    numbers = " ".join(f'{word}="{count}"' for word, count in counts.items())
    seconds = f'time="{sum(case.seconds for case in cases):.3f}"'
    lines = [f'<testsuite name={quoteattr(name)} tests="{len(cases)}" {numbers} {seconds}>']
    body = "\n".join(_case(name.replace(" ", "."), case) for case in cases)
    parts = ['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>", *lines, body, "</testsuite>\n</testsuites>"]
    return printable("\n".join(parts), "&#{};")


_COUNTED = {"failed": "failures", "broken": "errors", "skipped": "skipped"}


def _case(owner: str, case: Case) -> str:
    head = f'<testcase classname={_attribute(owner)} name={_attribute(case.name)} time="{case.seconds:.3f}"'
    element = _ELEMENTS.get(case.outcome)
    if element is None:
        return f"{head}>\n<system-out>{_text(case.text)}</system-out>\n</testcase>"
    message = f"<{element} message={_attribute(case.headline)}>{_text(case.text)}</{element}>"
    return f"{head}>\n{message}\n</testcase>"


def _text(text: str) -> str:
    return escape(_UNHEARD_OF.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_UNHEARD_OF.sub("\ufffd", text))
