"""How many runs fit side by side: each keeps the threads that it would have alone, and there is memory for all.

Known before the first run are the cores and how many threads a run is told to take; after it, how many ranks it had,
how much memory it took, and whether it used an accelerator.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Mapping
from pathlib import Path

from samebits.checking.verdict import Run

# What torch asks for the number of its threads, in this order; without one it takes all cores.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
MEMORY = Path("/proc/meminfo")
# Of the memory that is free: the system and the page cache live on the rest.
SHARE_OF_MEMORY = 0.8
ACCELERATOR = "cuda"


def fitting_cores(environ: Mapping[str, str]) -> int:
    """How many runs have cores of their own, each for one process; 1 where runs take all cores."""
    return max(1, cores() // threads(environ))


def fitting_run(most: int, run: Run, peak: int | None = None, free: int | None = None) -> int:
    """How many runs like this one fit, `most` at most.

    Args:
        most: how many have cores of their own.
        run: that was made alone.
        peak: bytes that the largest of its processes took; as measured without it.
        free: bytes that can be taken; as measured without it.
    """
    if run.facts.used is None or ACCELERATOR in run.facts.used:
        return 1
    by_cores = most // run.ranks
    peak, free = peak_bytes() if peak is None else peak, free_bytes() if free is None else free
    by_memory = most if free is None or not peak else int(free * SHARE_OF_MEMORY // (peak * run.ranks))
    return max(1, min(most, by_cores, by_memory))


def cores() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads(environ: Mapping[str, str]) -> int:
    """How many threads torch will take in a process with these variables."""
    for name in THREAD_VARIABLES:
        first = environ.get(name, "").partition(",")[0].strip()
        if first.isdecimal() and int(first) > 0:
            return int(first)
    return cores()


def peak_bytes() -> int:
    """The most that any process took that has ended below this one."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit


def free_bytes() -> int | None:
    """Memory that can be taken without swapping; None where the system does not say (proc_meminfo(5))."""
    try:
        lines = MEMORY.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return None if found is None else int(found) * 1024
