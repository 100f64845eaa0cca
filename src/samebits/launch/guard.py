"""No process of a run outlives it, nor this process: the other end of the watchman, and what ends a run by itself."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from samebits.launch import watchman
from samebits.runfolder.spec import VARIABLE

GRACE_SECONDS = 3.0

_lock = threading.Lock()
_watchman: subprocess.Popen[bytes] | None = None
_owner = 0


@contextmanager
def guarded(plan: Path) -> Iterator[Callable[[int], None]]:
    """What is started inside with this plan is ended when this process dies, however it dies.

    Yields a function that takes the number of the session that was started for it.
    """
    mark = _mark_of(plan)
    _send(mark, 0)
    try:
        yield lambda session: _send(mark, session)
    finally:
        _send(mark, None)


def end_run(process: subprocess.Popen[Any], plan: Path) -> None:
    """End a command, and what is left of its run: workers outlive a main process that was stopped or killed.

    Some leave its process group, as torchrun's workers and daemons do; they are in its session, or carry the run's plan
    in their environment, which Linux shows.
    """
    marks = {os.fsencode(_mark_of(plan))}
    try:
        if process.poll() is None:
            _signal_group(process, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_SECONDS)
    finally:
        deadline = time.monotonic() + GRACE_SECONDS
        # A process that was just starting another one has done so by the second look.
        while watchman.end_processes(marks, {process.pid}) and time.monotonic() < deadline:
            time.sleep(0.01)
        _signal_group(process, signal.SIGKILL)
        process.wait()


def _signal_group(process: subprocess.Popen[Any], number: int) -> None:
    # start_new_session made the group, so its id is the process's own, and no other's as long as a process is in it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _mark_of(plan: Path) -> str:
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
