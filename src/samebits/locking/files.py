"""Digests of data and artifacts: of a file its bytes, of a folder the names and bytes of all files in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from samebits.base.errors import LockfileError

_PIECE = 1024**2


def digest_of_path(path: Path) -> str:
    """64 bits in hex of what lies there.

    Raises:
        LockfileError: nothing does, or it cannot be read.
    """
    try:
        if path.is_dir():
            parts = (f"{_of_file(one)} {one.relative_to(path).as_posix()}\n" for one in _files_in(path))
            return blake2b("".join(parts).encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
        return _of_file(path)
    except OSError as error:
        raise LockfileError(f"{path} cannot be read: {error.strerror}", "is the path right?") from error


def _of_file(path: Path) -> str:
    found = blake2b(digest_size=8)
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


def _files_in(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(where, name) for name in sorted(names))
