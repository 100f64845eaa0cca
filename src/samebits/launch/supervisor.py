"""Runs a command as its parent, and ends all of its processes: `python -I -S supervisor.py PIPE COMMAND...`.

Processes that the command leaves behind, also daemons, become children of this program (PR_SET_CHILD_SUBREAPER,
prctl(2)), so the system itself says when none is left. When the other end of the pipe is closed, the command is ended:
samebits asks for that, or is dead. Standard library only: it is started without site-packages, in a few milliseconds.
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
# Processes that clean up after others end by themselves when the others have ended; every wait has a limit.
_CLEANING_SECONDS, _PATIENCE_SECONDS, _PAUSE_SECONDS = 2.0, 20.0, 0.01


def descendants(of: int) -> list[int]:
    """Return the processes that descend from one, parents first. Only where /proc shows processes."""
    children = defaultdict(list)
    with contextlib.suppress(OSError):
        for name in filter(str.isdigit, os.listdir(PROC)):
            with contextlib.suppress(OSError), open(f"{PROC}/{name}/stat", "rb") as file:
                # The name of the program stands in parentheses and may itself contain parentheses.
                _, parent, *_ = file.read().rpartition(b")")[2].split()
                children[int(parent)].append(int(name))
    pids = children[of]
    for pid in pids:
        pids += children[pid]
    return pids


def _reap() -> tuple[dict[int, int], bool]:
    """Return the children that have ended, pid → status, and whether there are others."""
    ended: dict[int, int] = {}
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return ended, True
            ended[pid] = status
    return ended, False


def _run(command: int, pipe: int, woken: int) -> int | None:
    """Wait, and return the status of the command when it has ended by itself, None when it has to be ended."""
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
    """End all processes that are left: ask the command to end, kill the others. Return the status of the command."""
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
    """Whether it is a process of `multiprocessing` or joblib that removes shared memory and semaphores at the end."""
    with contextlib.suppress(OSError), open(f"{PROC}/{pid}/cmdline", "rb") as file:
        return b"resource_tracker" in file.read()
    return False


def die_by_signal(number: int) -> None:
    """End this process by a signal, without a core dump; returns where it is the first process of a container."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # SIGKILL takes no handler, and needs none
        signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _become(argv: list[str]) -> None:
    os.setsid()
    # Python ignores these two signals, and the program that replaces it would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"cannot start {argv[0]!r}: {error.strerror}\n")
        os._exit(127)


def main() -> None:
    """Start the command, and wait until none of its processes is left."""
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
        die_by_signal(-code)
    os._exit(code)


if __name__ == "__main__":
    main()
