"""Ends the processes of runs: at the end of each, and when samebits itself was killed.

Run as a program, it waits beside samebits, reads from it which runs are under way, and does nothing more until that
pipe closes. However samebits ended, also by SIGKILL, what is still running then is ended. Standard library only: it is
started without site-packages, in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Collection

PROC = "/proc"
# Of `stat`, behind the name of the program.
_STATE, _SESSION = 0, 3
# A process may be about to start another one while it is looked for.
_PAUSE_SECONDS, _QUIET_PASSES, _PATIENCE_SECONDS = 0.1, 3, 20.0
_CLEANING_SECONDS = 2.0


def end_processes(marks: Collection[bytes], sessions: Collection[int]) -> int:
    """Kill the processes of some runs; returns how many there were. Only where /proc shows processes.

    They have a mark, `NAME=value`, in their environment, whatever session they went to, or have cleared it, and are in
    a session that was started for them. Those that clean up behind others are left alone for a while: they end by
    themselves when the others have ended.
    """
    found = [pid for pid in _processes() if _is_one(pid, marks, sessions)]
    trackers = [pid for pid in found if _is_tracker(pid)]
    for pid in found:
        if pid not in trackers:
            _kill(pid)
    deadline = time.monotonic() + _CLEANING_SECONDS
    while trackers and time.monotonic() < deadline:
        time.sleep(0.01)
        trackers = [pid for pid in trackers if _is_one(pid, marks, sessions)]
    for pid in trackers:
        _kill(pid)
    return len(found)


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def _is_tracker(pid: int) -> bool:
    """Whether it is what `multiprocessing` starts, or joblib, to take away shared memory and semaphores at the end."""
    try:
        with open(f"{PROC}/{pid}/cmdline", "rb") as file:
            return b"resource_tracker" in file.read()
    except OSError:
        return False


def _processes() -> list[int]:
    try:
        names = os.listdir(PROC)
    except OSError:
        return []
    return [int(name) for name in names if name.isdigit() and int(name) != os.getpid()]


def _is_one(pid: int, marks: Collection[bytes], sessions: Collection[int]) -> bool:
    try:
        with open(f"{PROC}/{pid}/stat", "rb") as file:
            # The name of the program stands in parentheses and may hold anything, also parentheses.
            fields = file.read().rpartition(b")")[2].split()
        if fields[_STATE] in (b"Z", b"X"):
            return False
        if int(fields[_SESSION]) in sessions:
            return True
        with open(f"{PROC}/{pid}/environ", "rb") as file:
            return any(variable in marks for variable in file.read().split(b"\0"))
    except (OSError, IndexError, ValueError):  # it has ended meanwhile, or is somebody else's
        return False


def _end_all(runs: dict[str, int]) -> None:
    marks = {os.fsencode(mark) for mark in runs}
    sessions = {session for session in runs.values() if session}
    deadline = time.monotonic() + _PATIENCE_SECONDS
    quiet = 0
    while quiet < _QUIET_PASSES and time.monotonic() < deadline:
        ended = end_processes(marks, sessions)
        for session in sessions:
            with contextlib.suppress(OSError):
                os.killpg(session, signal.SIGKILL)
        # Once a session is empty, its number may be used again.
        quiet = 0 if ended else quiet + 1
        if not quiet:
            continue
        sessions = set()
        time.sleep(_PAUSE_SECONDS)


def main() -> None:
    """Take notes until the other end is closed."""
    runs: dict[str, int] = {}
    for line in sys.stdin.buffer:
        try:
            mark, session = json.loads(line)
        except ValueError:  # half a line: samebits was killed in the middle of it
            continue
        if session is None:
            runs.pop(mark, None)
        else:
            runs[mark] = session
    if runs:
        _end_all(runs)


if __name__ == "__main__":
    main()
