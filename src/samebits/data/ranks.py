"""Which process of how many a loader fetches for, and what becomes of a last batch that they cannot share evenly."""

from __future__ import annotations

from typing import Literal, get_args

from samebits.base.errors import UsageError
from samebits.base.ranks import World, current_world

LastBatch = Literal["keep", "drop", "pad", "uneven"]
LAST_BATCHES: tuple[str, ...] = get_args(LastBatch)


def world_of(rank: int | None, world_size: int | None) -> World:
    """As given; else as `current_world` says. UsageError where only one is known, or the rank is out of range."""
    if (rank is None) != (world_size is None):
        raise UsageError(f"rank={rank} and world_size={world_size} go together", "give both, or neither")
    world = current_world() if rank is None or world_size is None else World(rank, world_size)
    if not 0 <= world.rank < world.size:
        raise UsageError(f"rank must be from 0 to {world.size - 1} (world_size={world.size}), got {world.rank}")
    return world


def own_part(world: World, count: int) -> slice:
    """This rank's part of `count` samples: contiguous, and as large as everybody's, give or take one."""
    return slice(world.rank * count // world.size, (world.rank + 1) * count // world.size)


def require_one_each(world: World, count: int, last_batch: LastBatch) -> None:
    """Raise UsageError when a global batch of `count` samples is too small for all, unless that is wanted."""
    if 0 < count < world.size and last_batch != "uneven":
        raise UsageError(
            f"a global batch of {count} samples leaves some of {world.size} ranks without any, and the others "
            "would wait for them for ever",
            "give last_batch='drop' or last_batch='pad', or last_batch='uneven' where ranks may take unequal "
            "numbers of steps",
        )
