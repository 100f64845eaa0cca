"""Facts about processes that the operating system gives, on systems with /proc."""

from __future__ import annotations

from pathlib import Path

PROC = Path("/proc")
# Fields of `stat` behind the name of the program (proc_pid_stat(5)).
PARENT, START_TIME, STACK = 1, 19, 25


def stat_of(pid: int | str) -> list[bytes]:
    """Return the fields of `/proc/PID/stat` after the name of the program; empty if there is no such process."""
    try:
        # The name of the program stands in parentheses and may itself contain parentheses.
        return (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def stack_of(pid: int | str = "self") -> int:
    """Return the address where the stack of a process begins, 0 if unknown; an exec changes it, a fork does not."""
    fields = stat_of(pid)
    return int(fields[STACK]) if len(fields) > STACK else 0
