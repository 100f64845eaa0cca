"""`--format text`: for people."""

from __future__ import annotations

from samebits.base.errors import SamebitsError
from samebits.report.answers import find_answer

IS_DATA = False


def answer(kind: str, record: object) -> str:
    """The answer in the first line, then labels."""
    return find_answer(kind).told(record).text


def failure(kind: str, error: SamebitsError) -> str:
    """Nothing: the error goes to stderr."""
    return ""
