"""Which of several training processes this one is."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from samebits.base.errors import UsageError


class World(NamedTuple):
    """The processes that train together: which of them this one is, and how many there are."""

    rank: int
    size: int


ALONE = World(0, 1)


def current_world() -> World:
    """As torch.distributed says when it is initialised; else as torchrun's variables do; else alone.

    A rank without a world is none: processes that only know their LOCAL_RANK are alone as far as anybody can tell.

    Raises:
        UsageError: RANK or WORLD_SIZE is not a number.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return World(distributed.get_rank(), distributed.get_world_size())
    texts = os.environ.get("RANK") or os.environ.get("LOCAL_RANK"), os.environ.get("WORLD_SIZE")
    if not all(texts):
        return ALONE
    try:
        return World(int(texts[0] or ""), int(texts[1] or ""))
    except ValueError:
        raise UsageError(f"RANK={texts[0]!r} and WORLD_SIZE={texts[1]!r} are not numbers") from None


def current_rank() -> int | None:
    """The rank of this process; None for a single one, and where the variables are not to be understood."""
    try:
        world = current_world()
    except UsageError:
        return None
    # A group of one process still has a rank.
    return None if world is ALONE else world.rank


def world_size() -> int:
    """How many processes train together; 1 where the variables are not to be understood."""
    try:
        return current_world().size
    except UsageError:
        return 1


def rank_path() -> tuple[str | int, ...]:
    """Words that distinguish this rank's random streams from the others'; empty for a single process.

    Here a RANK or LOCAL_RANK that says nothing of a world is enough: processes have one to be told apart.
    """
    rank = current_rank()
    texts = () if rank is not None else (os.environ.get(name, "") for name in ("RANK", "LOCAL_RANK"))
    rank = next((int(text) for text in texts if text.isdigit()), rank)
    return () if rank is None else ("rank", rank)
