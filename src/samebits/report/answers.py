"""Answers that were kept beside their runs, read again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from samebits.base.errors import NewerSchemaError, RecordingError
from samebits.checking.verdict import AnyVerdict
from samebits.report.documents.checks import CheckDocument
from samebits.report.documents.costs import CostDocument
from samebits.report.documents.crossings import AgainstDocument
from samebits.report.documents.resumes import ResumeDocument
from samebits.report.json import dumped
from samebits.report.rows import Told
from samebits.runfolder.folder import ANSWER
from samebits.runfolder.reading import read_json

SCHEMAS = {"samebits.against": 1, "samebits.check": 1, "samebits.cost": 1, "samebits.resume": 1}


def kept(document: Mapping[str, object], told: Told) -> str:
    """What is kept of an answer: its document, and the rows that people read, for the page."""
    return dumped({**document, "told": told.as_data()})


def read_answer(path: Path) -> AgainstDocument | CheckDocument | CostDocument | ResumeDocument:
    """The document in a file, of a check, a measurement or a resume; an older samebits may have left keys out.

    Raises:
        RecordingError: there is none, or it was made by a newer samebits.
    """
    try:
        document = cast("dict[str, str]", read_json(path, path.parent))
        name, _, version = document["schema"].partition("/")
        number = int(version)
    except RecordingError:
        raise
    except (OSError, ValueError, AttributeError, LookupError, TypeError) as error:
        raise RecordingError(
            f"{path} cannot be read: {error}", "was the check interrupted, or the file edited?"
        ) from error
    if name not in SCHEMAS or number > SCHEMAS[name]:
        raise NewerSchemaError(
            f"{path} has schema {document['schema']}, which this samebits does not read",
            "upgrade samebits: pip install --upgrade samebits",
        )
    return cast("AgainstDocument | CheckDocument | CostDocument | ResumeDocument", document)


def read_verdict(kind: type[AnyVerdict], home: Path) -> AnyVerdict:
    """The verdict of a check, from the answer in its folder.

    Raises:
        RecordingError: the folder holds no answer of a check, or one that cannot be read.
    """
    path = home / ANSWER
    if not home.is_dir():
        raise RecordingError(f"there is no folder {home}", "name the folder of a check, such as .samebits/2026...")
    if not path.exists():
        raise RecordingError(f"{home} holds no answer of a check", "name the folder of one, such as .samebits/2026...")
    document = read_answer(path)
    if document["schema"] != "samebits.check/1":
        raise RecordingError(f"{path} holds no answer of a check but {document['schema']}", "see `samebits report`")
    record = document.get("record")
    if record is None:
        why = "it could not even begin" if document["error"] else "it was made by a samebits that kept no record"
        raise RecordingError(f"{path} holds no verdict: {why}", "check again")
    try:
        return kind.from_json(record)
    except ValueError as error:
        raise RecordingError(f"{path} cannot be read: {error}", "was the file edited?") from error
