"""cpu-threads: how many threads an operation is split over."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from samebits.base.errors import UsageError
from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext, Setting

TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class CpuThreads(Factor):
    """Sums split over another number of threads are added in another order, and round differently.

    Of 812 outputs of 303 operations measured with torch 2.13, 73 changed between one and two threads (convolution and
    layer-norm weight gradients, large sums and means, softmax backward, some matmuls). `OMP_NUM_THREADS` alone does
    not hold the count: MKL stays dynamic and shrinks to the number of cores; `torch.set_num_threads` does, together
    with `torch-algorithms`. Pinned without a value, the count in effect is kept, and so is one that the program sets
    itself; `--pin cpu-threads=4` gives the same bits on machines with other numbers of cores. Afterwards torch's
    count is put back, while MKL stays static: torch has no way to make it dynamic again.
    """

    name = "cpu-threads"
    scope = "environment"
    summary = "a different number of CPU threads adds in a different order, so results differ between machines"
    explanation = "summation order depends on the thread count"
    too_late = "the first parallel operation, for MKL and OpenMP; torch itself follows at any time"
    fix = "call torch.set_num_threads with a fixed number at the start"
    varies_between_runs = False
    priced = ("pinned",)
    kernel_variables = ("OMP_NUM_THREADS",)

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        threads = _wanted(setting, environ)
        if threads is None:
            return {}
        asked = {**dict.fromkeys(VARIABLES, str(threads)), "MKL_DYNAMIC": "FALSE"}
        if setting.mode == "varied" or setting.value:
            return asked
        return {name: environ.get(name) or value for name, value in asked.items()}

    def check_value(self, value: str) -> None:
        if not (value.isascii() and value.isdigit() and int(value) > 0):
            raise UsageError(f"cpu-threads takes a number of threads, got {value!r}", "for example --pin cpu-threads=4")

    def treat(self, context: FactorContext) -> None:
        def hold(torch: ModuleType) -> None:
            before = torch.get_num_threads()
            context.undo.callback(torch.set_num_threads, before)
            torch.set_num_threads(_wanted(context.setting, os.environ) or before)

        # When varied, torch takes the count from the environment at its import.
        if context.mode == "pinned":
            context.when_loaded("torch", hold)

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        return {"set_num_threads": [torch.get_num_threads()]}

    def observe(self, context: FactorContext | None = None) -> Observation:
        torch = sys.modules.get("torch")
        if torch is None:
            return Observation("torch is not loaded", True if context else None)
        threads = torch.get_num_threads()
        if context is None:
            return Observation(f"{threads}", False)
        wanted = int(context.setting.value) if context.setting.value else threads
        reason = "" if wanted == threads else f"{threads} threads are in use instead of {wanted}"
        return Observation(f"{threads}", wanted == threads, reason=reason)


def _wanted(setting: Setting, environ: Mapping[str, str]) -> int | None:
    """Return the number of threads to set; None if none is to be set, or none is known before torch is loaded."""
    given = environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    current = int(given) if given.isdigit() and int(given) > 0 else None
    if setting.mode == "pinned":
        return int(setting.value) if setting.value else current
    if setting.mode != "varied":
        return None
    taken = {current} if current else _natural_counts()
    return [count for count in range(1, setting.variant + 3) if count not in taken][setting.variant - 1]


def _natural_counts() -> set[int]:
    """Return the thread counts that torch may begin with: this process's cores or, with MKL, the physical ones."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    try:
        # If two cores share a physical one, the files of both name both (/sys/devices/system/cpu, Linux's cputopology).
        shared = {TOPOLOGY.format(core) for core in cores}
        return {len(cores), len({Path(path).read_text(encoding="ascii") for path in shared})}
    except OSError:
        return {len(cores)}
