"""The other end of the watchman: names the runs that are under way, so that none outlives this process."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from samebits.launch import watchman
from samebits.runfolder.spec import VARIABLE

_lock = threading.Lock()
_watchman: subprocess.Popen[bytes] | None = None
_owner = 0


@contextmanager
def guarded(plan: Path) -> Iterator[Callable[[int], None]]:
    """What is started inside with this plan is ended when this process dies, however it dies.

    Yields:
        A function that takes the number of the session that was started for it.
    """
    mark = mark_of(plan)
    _send(mark, 0)
    try:
        yield lambda session: _send(mark, session)
    finally:
        _send(mark, None)


def mark_of(plan: Path) -> str:
    """What stands in the environment of every process of a run."""
    return f"{VARIABLE}={plan}"


def _send(mark: str, session: int | None) -> None:
    with _lock, contextlib.suppress(OSError):
        pipe = _running().stdin
        assert pipe is not None
        # Shorter than what a pipe takes at once, so that half of it is never read.
        pipe.write(json.dumps([mark, session]).encode() + b"\n")
        pipe.flush()


def _running() -> subprocess.Popen[bytes]:
    """The watchman, started when it is needed first; a forked child has one of its own."""
    global _watchman, _owner
    if _watchman is None or _owner != os.getpid():
        # In a session of its own: what is meant for samebits, by a terminal or by number, does not reach it.
        _watchman = subprocess.Popen(
            [sys.executable, "-I", "-S", watchman.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        _owner = os.getpid()
        atexit.register(_dismiss, _watchman)
    return _watchman


def _dismiss(process: subprocess.Popen[bytes]) -> None:
    if _owner == os.getpid():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process.communicate(timeout=5)
