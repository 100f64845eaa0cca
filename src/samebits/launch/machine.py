"""The cores and the memory that samebits may use, and how many runs fit into them.

A container or batch job sees the memory and the cores of the whole machine; its control groups say how much it may use
(cgroups(7); cgroup-v1/memory.txt and cgroup-v2.rst in the kernel's documentation).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from samebits.base.processes import PROC

GROUPS = Path("/sys/fs/cgroup")
# The share of the free memory that runs may take; the system and the page cache need the rest.
SHARE_OF_MEMORY = 0.5
# A run that is a little above one core does not need two.
SLACK_CORES = 0.15
# What simultaneous runs would share: a device, and the port at which ranks meet.
SHARED = frozenset({"accelerator", "ranks"})


def children_usage() -> tuple[float, int]:
    """Return what this process's descendants that have ended used: CPU seconds of all, peak bytes of the largest."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class RunCapacity:
    """The number of runs that may be made at once, by the cores and memory that the first run, made alone, needed.

    A run keeps its number of threads, so one that keeps all cores busy is made alone. So are runs with several ranks or
    an accelerator, and a run after one that reached something outside its copy of the folder. Where runs would not see
    the folder at the same path, `as_fits` makes one run at a time.
    """

    def __init__(self, most: int, *, as_fits: bool, is_same_path: bool) -> None:
        self._most = most if is_same_path or not as_fits else 1
        self._fits = 1 if as_fits else most
        self._is_known, self._reached = not as_fits, False
        self._seconds_before, _ = children_usage()

    @property
    def room(self) -> int:
        return 1 if self._reached else self._fits

    def learn(self, used: frozenset[str] | None, seconds: float, *, reached: bool) -> None:
        """Learn from a run of `seconds`: what it used (None if unknown), and whether it reached outside its copy."""
        self._reached = reached
        if not self._is_known:
            self._is_known = True
            self._fits = 1 if used is None or used & SHARED else self._like_this(seconds)

    def _like_this(self, seconds: float) -> int:
        """Return how many runs fit that need as much as the run that was made alone."""
        (taken, peak_bytes), free = children_usage(), free_bytes()
        busy = math.ceil((taken - self._seconds_before) / max(seconds, 1e-3) - SLACK_CORES)
        by_memory = self._most if free is None else int(free * SHARE_OF_MEMORY // max(1, peak_bytes))
        return max(1, min(self._most // max(1, busy), by_memory))

    def go_alone(self) -> None:
        """Allow only one run at a time from now on."""
        self._fits = 1


def cores(proc: Path = PROC, groups: Path = GROUPS) -> int:
    """Return how many cores this process may keep busy, at least one."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = [share for folder in _folders("cpu", proc, groups) if (share := _share_of_time(folder)) is not None]
    return max(1, int(min([usable, *shares])))


def free_bytes(proc: Path = PROC, groups: Path = GROUPS) -> int | None:
    """Return the bytes that can be taken without swapping; None where the system does not say (proc_meminfo(5))."""
    lines = _read(proc / "meminfo").splitlines()
    available = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    if available is None:
        return None
    left = [left for folder in _folders("memory", proc, groups) if (left := _left(folder)) is not None]
    return max(0, min([int(available) * 1024, *left]))


def _folders(controller: str, proc: Path, groups: Path) -> Iterator[Path]:
    """The folders of our control group and of all groups around it: the narrowest bound counts."""
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        base, group = groups / controller if names else groups, Path(path.lstrip("/"))
        for part in (group, *group.parents):
            yield base / part


def _left(folder: Path) -> int | None:
    """Return the bytes that a group may still take; None where nothing bounds it."""
    for limit_file, usage_file, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        with suppress(ValueError):  # "max", or no such file
            limit, used = int(_read(folder / limit_file)), int(_read(folder / usage_file))
            stat = dict(line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines())
            return limit - used + int(stat.get(cache, 0))
    return None


def _share_of_time(folder: Path) -> float | None:
    """Return how many cores a group may keep busy; None where nothing bounds it."""
    with suppress(ValueError):
        words = _read(folder / "cpu.max").split() or [
            _read(folder / "cpu.cfs_quota_us"),
            _read(folder / "cpu.cfs_period_us"),
        ]
        quota, period = map(int, words)
        return quota / period if quota > 0 and period > 0 else None
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""
