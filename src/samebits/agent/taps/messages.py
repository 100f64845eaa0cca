"""The tap of standard error: what Python code writes there, such as logs, except warnings.

Warnings, and what C code writes, speak of the treatment of a run and of the machine; they would differ between runs.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from samebits.base.sites import without_own_frames

_WARNINGS = ("warnings", "_py_warnings")


def keep_messages(path: Path) -> None:
    """Append to a file what this process writes to its `sys.stderr`, unless another process of the run has the file.

    A process that a program starts, and that has the rank of the program or none, is such a one: what it writes comes
    at any moment. A forked child writes nothing to the file.
    """
    stream, pid = sys.stderr, os.getpid()
    if stream is None:
        return
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except OSError:
        return
    original = stream.write

    def write(text: str) -> int:
        with without_own_frames:
            written = original(text)
        with suppress(Exception):  # a full disk, or a stream that gets bytes, must not end the user's run
            if os.getpid() == pid and sys._getframe(1).f_globals.get("__name__") not in _WARNINGS:
                _append(path, text)
        return written

    stream.write = write  # type: ignore[method-assign]


def _append(path: Path, text: str) -> None:
    """Append with one write, so that threads and signal handlers need no lock; the file is not kept open."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(handle, text.encode(errors="surrogateescape"))
    finally:
        os.close(handle)
