"""All kinds of answers: the record of each, its text for people, and its JSON document for programs.

A document holds the record, key by key, and the rows that people read. The published schemas are generated from the
records and their docstrings by `docs/schemas.py`. Keys are only ever added.
"""

from __future__ import annotations

import importlib
import json
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Union, cast, get_args, get_origin, get_type_hints

from samebits.base.errors import NewerSchemaError, RecordingError, SamebitsError
from samebits.base.printable import printable
from samebits.base.records import from_data, keys, to_data
from samebits.report.rows import AnswerReport
from samebits.runfolder.reading import read_json

if TYPE_CHECKING:
    from samebits.checking.verdict import CheckVerdict


# Kind of answer → the module of this room that puts it into words: its function `KIND_report` takes the record. Modules
# are imported only when they are needed.
ANSWERS = {
    "against": "against",
    "check": "text",
    "cost": "costs",
    "diff": "diffs",
    "factors": "text",
    "lint": "lints",
    "lock": "locks",
    "replay": "text",
    "resume": "resumes",
    "verify": "locks",
}


class Answer(NamedTuple):
    """A kind of answer: the type of its record, and the function that puts a record into words."""

    record: type
    told: Callable[[Any], AnswerReport]


@cache
def find_answer(kind: str) -> Answer:
    """Return the kind of answer with a name; its module is imported now."""
    told = getattr(importlib.import_module(f"samebits.report.{ANSWERS[kind]}"), f"{kind}_report")
    record, *_ = get_type_hints(told).values()
    return Answer(record, told)


def json_text(document: Mapping[str, object]) -> str:
    """Return a document as JSON text, nothing shortened; ValueError for NaN and infinity, which JSON cannot express."""
    return printable(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False), "\\u{:04x}")


def document_of(kind: str, record: object) -> dict[str, object]:
    """Return the document of an answer, for programs; `kind` is a name in `ANSWERS`."""
    told, data = find_answer(kind).told(record), to_data(record)
    assert isinstance(data, dict)
    return _with_head(kind, told.headline, {"error": None, **data, "rows": [[*row] for row in told.all_rows]})


def error_document(kind: str, error: SamebitsError) -> dict[str, object]:
    """Return the document of an answer that could not even begin: of the same shape, with an error and nothing else."""
    empty = {key: _empty_value(hint) for key, (_, hint) in keys(find_answer(kind).record).items()}
    return _with_head(kind, error.message, {**empty, "error": error.as_data(), "rows": []})


def _with_head(kind: str, headline: str, content: Mapping[str, object]) -> dict[str, object]:
    return {"schema": f"samebits.{kind}/1", "headline": headline, **content}


_EMPTY: dict[object, object] = {tuple: [], Mapping: {}, Path: ""}


def _empty_value(hint: object) -> object:
    """Return the value of a type that means "no answer": an empty list, null, false, zero, or `undecided`."""
    origin: Any = get_origin(hint) or hint
    inner = get_args(hint)
    if origin in (Union, types.UnionType):
        return None
    if origin is Literal:
        return "undecided" if "undecided" in inner else inner[0]
    if is_dataclass(origin):
        return {key: _empty_value(of) for key, (_, of) in keys(cast("Hashable", origin)).items()}
    return _EMPTY[origin] if origin in _EMPTY else origin()


def read_answer(home: Path) -> tuple[str, Any]:
    """Return the kind and the record of the answer that was kept in a folder, maybe by an older samebits.

    Raises RecordingError where there is none, or a newer samebits made it.
    """
    from samebits.runfolder.folder import ANSWER

    path = home / ANSWER
    try:
        content: Any = read_json(path, home)
        name, _, version = content["schema"].partition("/")
        kind, number = name.removeprefix("samebits."), int(version)
        if kind in ANSWERS and number == 1:
            return kind, from_data(find_answer(kind).record, content)
    except RecordingError:
        raise
    except (OSError, ValueError, AttributeError, LookupError, TypeError) as error:
        raise RecordingError(
            f"{path} cannot be read: {error}", "was the check interrupted, or the file edited?"
        ) from error
    raise NewerSchemaError(
        f"{path} has schema {content['schema']}, which this samebits does not read",
        "upgrade samebits: pip install --upgrade samebits",
    )


def read_verdict(home: Path) -> CheckVerdict:
    """Return the verdict of a check from its folder; RecordingError where there is none that can be read."""
    from samebits.runfolder.folder import ANSWER

    if not home.is_dir():
        raise RecordingError(f"there is no folder {home}", "name the folder of a check, such as .samebits/2026...")
    if not (home / ANSWER).exists():
        raise RecordingError(f"{home} holds no answer of a check", "name the folder of one, such as .samebits/2026...")
    kind, record = read_answer(home)
    if kind != "check":
        raise RecordingError(f"{home} holds no answer of a check but of samebits {kind}", "see `samebits report`")
    return cast("CheckVerdict", record)
