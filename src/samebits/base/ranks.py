"""The rank of this process, and the number of processes that train together."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from samebits.base.errors import UsageError


class World(NamedTuple):
    """The rank of this process, and the number of processes that train together."""

    rank: int
    size: int


ALONE = World(0, 1)


def current_world() -> World:
    """Return rank and size from torch.distributed if it is initialised, else from torchrun's variables, else `ALONE`.

    A rank counts only with a WORLD_SIZE: a process that only knows its LOCAL_RANK may be alone.

    Raises:
        UsageError: RANK or WORLD_SIZE is not a number.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return World(distributed.get_rank(), distributed.get_world_size())
    variables = os.environ.get("RANK") or os.environ.get("LOCAL_RANK"), os.environ.get("WORLD_SIZE")
    if not all(variables):
        return ALONE
    try:
        return World(int(variables[0] or ""), int(variables[1] or ""))
    except ValueError:
        raise UsageError(f"RANK={variables[0]!r} and WORLD_SIZE={variables[1]!r} are not numbers") from None


def current_rank() -> int | None:
    """Return the rank of this process; None if it trains alone, or if RANK or WORLD_SIZE is not a number."""
    try:
        world = current_world()
    except UsageError:
        return None
    # A group of one process still has a rank.
    return None if world is ALONE else world.rank


def world_size() -> int:
    """Return how many processes train together, by torch or by WORLD_SIZE alone; 1 where that is no number."""
    try:
        size = current_world().size
    except UsageError:
        return 1
    text = os.environ.get("WORLD_SIZE", "")
    return max(size, int(text) if text.isdigit() else 1)


def rank_path() -> tuple[str | int, ...]:
    """Return the words for `derive` that give this rank its own random streams; empty for a single process.

    Here a RANK or LOCAL_RANK without a WORLD_SIZE is enough: it exists to tell processes apart.
    """
    rank = current_rank()
    values = () if rank is not None else (os.environ.get(name, "") for name in ("RANK", "LOCAL_RANK"))
    rank = next((int(value) for value in values if value.isdigit()), rank)
    return () if rank is None else ("rank", rank)
