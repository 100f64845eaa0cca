"""Digests of data and artifacts: of a file's bytes, or of the names and bytes of all files in a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from samebits.base.errors import LockfileError

_PIECE = 1024**2


def digest_of_path(path: Path) -> str:
    """Return the digest (64 bits, in hex) of a file or a folder; links are followed.

    Raises:
        LockfileError: nothing is there, it cannot be read, or it is neither a file nor a folder of files.
    """
    try:
        if path.is_dir():
            parts = (f"{_of_file(one)} {one.relative_to(path).as_posix()}\n" for one in _files_in(path))
            return blake2b("".join(parts).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        return _of_file(path)
    except OSError as error:
        lost = Path(os.fsdecode(error.filename or path))
        hint = f"it is a link to {os.readlink(lost)}" if lost.is_symlink() else "is the path right?"
        raise LockfileError(f"{lost} cannot be read: {error.strerror}", hint) from error


def digest_at(path: Path) -> str | None:
    """Return the digest of a file or a folder; None where `digest_of_path` raises LockfileError."""
    try:
        return digest_of_path(path)
    except LockfileError:
        return None


def is_written(path: Path, since: float) -> bool:
    """Whether there is a file, or a folder of files, written as a whole after `since` (seconds, as `time.time`).

    The time of the last status change counts, because programs cannot set it (stat(3type)).
    """
    try:
        times = [one.stat().st_ctime for one in (_files_in(path) if path.is_dir() else (path,))]
    except OSError:
        return False
    return bool(times) and min(times) > since


def _of_file(path: Path) -> str:
    if not stat.S_ISREG(path.stat().st_mode):
        # Reading a pipe would wait, and a device has no end.
        raise LockfileError(
            f"{path} is not a regular file, so it has no bytes to digest", "name what is to be digested"
        )
    digest = blake2b(digest_size=8)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _files_in(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise error

    for where, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        # Following a link to a folder that contains the link would never end.
        here = Path(where).resolve()
        folders[:] = sorted(name for name in folders if not here.is_relative_to(Path(where, name).resolve()))
        yield from (Path(where, name) for name in sorted(names))
