"""Reading files of a run folder. It may come from a stranger: links that leave it, and oversized files, are refused."""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from samebits.base.errors import RecordingError

# Files are read as a whole. Limits for tensors and for text, far above anything that samebits writes.
MOST_BYTES, MOST_TEXT_BYTES = 1 << 34, 1 << 30
_DAMAGE = (OSError, sqlite3.Error, struct.error, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_HINT = "was the run folder edited or copied in part?"


def safe_path(path: Path, folder: Path) -> Path:
    """Return a path in a folder; RecordingError where a link or `..` leads out of it, or it is a pipe or a device."""
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise RecordingError(f"{path} leads out of {folder}, so it is not read", _HINT)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise RecordingError(f"{path} is not a regular file", _HINT)
    return path


def safe_files(folder: Path, pattern: str) -> Iterator[Path]:
    """The paths in a folder that match a pattern, each checked by `safe_path`."""
    return (safe_path(path, folder) for path in folder.glob(pattern))


def read_bytes(path: Path, folder: Path, most: int = MOST_BYTES) -> bytes:
    """Return the content of a file in a folder; RecordingError as by `safe_path`, or where the file is too large."""
    size = safe_path(path, folder).stat().st_size
    if size > most:
        raise RecordingError(f"{path} has {size} bytes, more than samebits reads", _HINT)
    return path.read_bytes()


def read_json(path: Path, folder: Path) -> object:
    """Return the JSON document in a file of a folder; ValueError where it is not JSON, else as `read_bytes`."""
    return parse_json(read_bytes(path, folder, MOST_TEXT_BYTES))


@contextmanager
def damage_described(what: object, how: str = "cannot be read", hint: str = "was it edited?") -> Iterator[None]:
    """Turn whatever error the content of a file causes in the block into a RecordingError of one sentence."""
    try:
        yield
    except RecordingError:
        raise
    except _DAMAGE as error:
        raise RecordingError(f"{what} {how}: {str(error) or type(error).__name__}", hint) from error


def parse_json(text: str | bytes) -> object:
    """Parse a JSON document; ValueError where it is not JSON, or is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
