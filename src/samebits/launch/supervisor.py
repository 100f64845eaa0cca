"""Runs a command as its parent, and lets no process of it live on: `python -I -S supervisor.py PIPE COMMAND...`.

Whatever the command leaves behind, daemons too, becomes a child of this program (PR_SET_CHILD_SUBREAPER, prctl(2)), so
the system itself says when nobody is left. When the other end of the pipe is closed, the command is ended: samebits
asks for that, or is dead. Standard library only: it is started without site-packages, in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections import defaultdict

PROC = "/proc"
_SUBREAPER = 36
GRACE_SECONDS = 3.0
# Those that clean up behind others end by themselves when the others have ended; nobody is waited for without end.
_CLEANING_SECONDS, _PATIENCE_SECONDS, _PAUSE_SECONDS = 2.0, 20.0, 0.01


def descendants(of: int) -> list[int]:
    """The processes that come from one, parents first. Only where /proc shows processes."""
    children = defaultdict(list)
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, os.listdir(PROC)):
            with contextlib.suppress(OSError), open(f"{PROC}/{name}/stat", "rb") as file:
                # The name of the program stands in parentheses and may hold anything, also parentheses.
                _, parent, *_ = file.read().rpartition(b")")[2].split()
                children[int(parent)].append(int(name))
    found = children[of]
    for pid in found:
        found += children[pid]
    return found


def _reap() -> tuple[dict[int, int], bool]:
    """The children that have ended, with their statuses; and whether there are others."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return ended, True
            ended[pid] = status
    return ended, False


def _run(command: int, pipe: int, woken: int) -> int | None:
    """The status of the command when it has ended by itself; None where it is to be ended."""
    while True:
        ready, _, _ = select.select([pipe, woken], [], [])
        if woken in ready:
            os.read(woken, 512)
        ended, _ = _reap()
        if command in ended:
            return ended[command]
        if pipe in ready:
            return None


def _end(command: int, status: int | None) -> int:
    """End all that is left: the command is asked to, the others are killed. Returns the status of the command."""
    begun, killing = time.monotonic(), 0.0
    if status is None:
        with contextlib.suppress(OSError):
            os.killpg(command, signal.SIGTERM)
    while (now := time.monotonic()) < begun + _PATIENCE_SECONDS:
        ended, are_others = _reap()
        status = ended.get(command, status)
        if not are_others:
            break
        if status is not None or now > begun + GRACE_SECONDS:
            killing = killing or now
            _kill(are_trackers_left=now < killing + _CLEANING_SECONDS)
        time.sleep(_PAUSE_SECONDS)
    return signal.SIGKILL if status is None else status


def _kill(are_trackers_left: bool) -> None:
    for pid in descendants(os.getpid()):
        if not (are_trackers_left and _is_tracker(pid)):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _is_tracker(pid: int) -> bool:
    """Whether it is what `multiprocessing` starts, or joblib, to take away shared memory and semaphores at the end."""
    with contextlib.suppress(OSError), open(f"{PROC}/{pid}/cmdline", "rb") as file:
        return b"resource_tracker" in file.read()
    return False


def die_of(number: int) -> None:
    """End this process of a signal, without a core; comes back where it is the first process of a container."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # SIGKILL takes no handler, and needs none
        signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _become(argv: list[str]) -> None:
    os.setsid()
    # Python ignores these two for itself, and what it becomes would go on so.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]!r}: {error.strerror}\n")
        os._exit(127)


def main() -> None:
    """Start the command, and stay until none of its processes is left."""
    pipe, *argv = sys.argv[1:]
    os.set_inheritable(int(pipe), False)
    if prctl := getattr(ctypes.CDLL(None), "prctl", None):
        prctl(_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    command = os.fork()
    if not command:
        _become(argv)
    code = os.waitstatus_to_exitcode(_end(command, _run(command, int(pipe), woken)))
    if code < 0:
        die_of(-code)
    os._exit(code)


if __name__ == "__main__":
    main()
