"""`--format json`: one document with a schema name, see docs/reference/schemas."""

from __future__ import annotations

from samebits.base.errors import SamebitsError
from samebits.report.answers import document_of, error_document, json_text


def answer(kind: str, record: object) -> str:
    """Return the document of an answer: its record, key by key."""
    return json_text(document_of(kind, record))


def failure(kind: str, error: SamebitsError) -> str:
    """Return the document of a failure: the same keys without an answer."""
    return json_text(error_document(kind, error))
