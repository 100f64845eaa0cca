"""What this machine has to give: of memory and cores, no more than the container or batch job in which we are may take.

A container sees the memory and the cores of the whole machine; what it may take of them, its control groups say
(cgroups(7); cgroup-v1/memory.txt and cgroup-v2.rst in the kernel's documentation).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def cores(proc: Path = PROC, groups: Path = GROUPS) -> int:
    """How many this process may keep busy, at least one."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = [share for folder in _folders("cpu", proc, groups) if (share := _share_of_time(folder)) is not None]
    return max(1, int(min([own, *shares])))


def free_bytes(proc: Path = PROC, groups: Path = GROUPS) -> int | None:
    """Memory that can be taken without swapping; None where the system does not say (proc_meminfo(5))."""
    lines = _read(proc / "meminfo").splitlines()
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    if found is None:
        return None
    left = [left for folder in _folders("memory", proc, groups) if (left := _left(folder)) is not None]
    return max(0, min([int(found) * 1024, *left]))


def _folders(controller: str, proc: Path, groups: Path) -> Iterator[Path]:
    """Those of our own control group and of all that it lies in: the narrowest bound counts."""
    for line in _read(proc / "self" / "cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        base, own = groups / controller if names else groups, Path(path.lstrip("/"))
        for part in (own, *own.parents):
            yield base / part


def _left(folder: Path) -> int | None:
    """Bytes that a group may still take; None where nothing bounds it."""
    for most, used, cache in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        with suppress(ValueError):  # "max", or no such file
            limit, taken = int(_read(folder / most)), int(_read(folder / used))
            stat = dict(line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines())
            return limit - taken + int(stat.get(cache, 0))
    return None


def _share_of_time(folder: Path) -> float | None:
    """How many cores a group may keep busy; None where nothing bounds it."""
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
