"""The end of a process, and what it used of what only some programs use; imports nothing to find out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress

from samebits.accelerators.devices import may_be_in_use, may_read_cudas_settings
from samebits.base.ranks import world_size
from samebits.factors.pinning import replacement_counts
from samebits.runfolder.notes import Ended, Journal, Note, Replaced, Used


def features_used() -> list[str]:
    """Return what was used: `cuda`, `ranks`, `compiled`, which factors may need; `accelerator`, which runs share."""
    uses = {
        # False for a program on the CPU whose torch was built for CUDA.
        "cuda": may_read_cudas_settings(),
        "accelerator": may_be_in_use(),
        "ranks": _has_ranks(),
        "compiled": compiled_regions() > 0,
    }
    return [word for word, is_used in uses.items() if is_used]


def compiled_regions() -> int:
    """Return how many graphs torch.compile made."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])


def _has_ranks() -> bool:
    if world_size() > 1:
        return True
    distributed = sys.modules.get("torch.distributed")
    return bool(distributed is not None and distributed.is_available() and distributed.is_initialized())


def notes_of_use() -> Iterator[Note]:
    """The notes for the end of a process: operations of torch that were replaced, and what was used."""
    yield from (Replaced(op, calls, site) for (op, site), calls in replacement_counts().items())
    yield Used(tuple(features_used()))


def end_process(journal: Journal, last_step: int) -> None:
    """End this process after a step, on purpose, and flush what the program printed."""
    for note in notes_of_use():
        journal.note(note)
    journal.note(Ended(last_step))
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)
