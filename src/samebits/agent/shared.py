"""Parameters in memory that other processes see: which line steps on them, and which memory that is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from samebits.base.sites import user_site
from samebits.runfolder.notes import Journal, SteppedShared

_MAPS = Path("/proc/self/maps")


def note_shared(journal: Journal, parameters: Iterable[Any]) -> None:
    """Note the user's line that steps, and the memory that it changes, if other processes can see that memory."""
    shared = [parameter for parameter in parameters if parameter.device.type == "cpu" and parameter.is_shared()]
    site = user_site() if shared else None
    if site is not None:
        journal.note(SteppedShared(tuple(sorted(_memory_of(shared))), site))


def _memory_of(tensors: Iterable[torch.Tensor]) -> set[str]:
    """Return the files behind tensors, by device and inode, which are alike in all processes that share them (proc(5)).

    The set is empty where the system does not show them.
    """
    lines = _MAPS.read_text().splitlines() if _MAPS.exists() else []
    mapped = sorted(
        (int(first, 16), int(last, 16), f"{device} {inode}")
        for span, _, _, device, inode in (line.split()[:5] for line in lines)
        for first, last in [span.split("-")]
    )
    positions = (bisect_right(mapped, (tensor.data_ptr(), 2**64, "")) - 1 for tensor in tensors)
    return {mapped[position][2] for position in positions if position >= 0}
