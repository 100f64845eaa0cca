"""Parameters in memory that other processes see: who steps on them, and in which memory."""

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
    """Note the user's line that steps, and the memory that it changes; nothing where no other process can see it."""
    shared = [one for one in parameters if one.device.type == "cpu" and one.is_shared()]
    site = user_site() if shared else None
    if site is not None:
        journal.note(SteppedShared(tuple(sorted(_memory_of(shared))), site))


def _memory_of(tensors: Iterable[torch.Tensor]) -> set[str]:
    """The files behind some tensors, by device and number: the same in all processes that share them (proc(5)).

    Empty where the system does not show them.
    """
    lines = _MAPS.read_text().splitlines() if _MAPS.exists() else []
    mapped = sorted(
        (int(first, 16), int(last, 16), f"{device} {number}")
        for span, _, _, device, number in (line.split()[:5] for line in lines)
        for first, last in [span.split("-")]
    )
    places = (bisect_right(mapped, (one.data_ptr(), 2**64, "")) - 1 for one in tensors)
    return {mapped[place][2] for place in places if place >= 0}
