"""How many runs fit side by side: cores and memory for all, as one run alone was seen to need them.

Nobody's number of threads is changed for it: a run that keeps all cores busy goes alone. What one run needs is known
when it has ended, with all its workers. Ranks, and whatever uses an accelerator, go alone.
"""

from __future__ import annotations

import math
import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from samebits.checking.verdict import Run

MEMORY = Path("/proc/meminfo")
# Of the memory that is free: the system and the page cache live on the rest.
SHARE_OF_MEMORY = 0.8
# A run that is a little above one core does not need two.
SLACK_CORES = 0.15
# What runs side by side would share: a device, and the port at which ranks meet.
SHARED = frozenset({"accelerator", "ranks"})


@dataclass(frozen=True)
class Need:
    """What the processes took that have ended below this one.

    Attributes:
        cpu_seconds: all together.
        peak_bytes: of memory, the largest of them.
    """

    cpu_seconds: float
    peak_bytes: int


def needed() -> Need:
    """Since this process began."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Need(used.ru_utime + used.ru_stime, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))


def fitting(most: int, run: Run, need: Need, free: int | None) -> int:
    """How many runs like this one fit.

    Args:
        most: cores.
        run: that was made alone.
        need: of all its processes.
        free: bytes of memory that can be taken; None where that is not known.
    """
    if run.facts.used is None or run.facts.used & SHARED:
        return 1
    busy = max(1, math.ceil(need.cpu_seconds / max(run.outcome.wall_seconds, 1e-3) - SLACK_CORES))
    by_memory = most if free is None else int(free * SHARE_OF_MEMORY // max(1, need.peak_bytes))
    return max(1, min(most // busy, by_memory))


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_bytes() -> int | None:
    """Memory that can be taken without swapping; None where the system does not say (proc_meminfo(5))."""
    try:
        lines = MEMORY.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else int(found) * 1024
