"""Files of a run folder, which may be a stranger's: what leads out of it is not read, nor more than memory can hold."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from samebits.base.errors import RecordingError

# Files are read as a whole, and none of ours comes near: tensors, and text.
MOST_BYTES, MOST_TEXT_BYTES = 1 << 34, 1 << 30
_HINT = "was the run folder edited or copied in part?"


def safe_path(path: Path, folder: Path) -> Path:
    """A path in a folder; RecordingError where a link or `..` leads out of it, or it is a pipe or a device."""
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise RecordingError(f"{path} leads out of {folder}, so it is not read", _HINT)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise RecordingError(f"{path} is not a regular file", _HINT)
    return path


def safe_files(folder: Path, pattern: str) -> Iterator[Path]:
    """The files in a folder that match."""
    return (safe_path(path, folder) for path in folder.glob(pattern))


def read_bytes(path: Path, folder: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file in a folder; RecordingError where it is none of the folder's, or too large."""
    size = safe_path(path, folder).stat().st_size
    if size > most:
        raise RecordingError(f"{path} has {size} bytes, more than samebits reads", _HINT)
    return path.read_bytes()


def read_json(path: Path, folder: Path) -> object:
    """The document in a file of a folder; ValueError where it is none, else errors as of `read_bytes`."""
    return parsed(read_bytes(path, folder, MOST_TEXT_BYTES))


def parsed(text: str | bytes) -> object:
    """A JSON document; ValueError where it is none, or is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
