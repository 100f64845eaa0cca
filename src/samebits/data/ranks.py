"""Which of how many processes this one is, and which part of a global batch is its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from samebits.base.errors import UsageError
from samebits.base.ranks import rank_and_world_size

LastBatch = Literal["keep", "drop", "pad", "uneven"]
LAST_BATCHES: tuple[str, ...] = get_args(LastBatch)


@dataclass(frozen=True)
class Ranks:
    """One process of those that train together.

    Attributes:
        rank: counts from 0.
        world_size: how many there are.
    """

    rank: int = 0
    world_size: int = 1

    @classmethod
    def of_process(cls, rank: int | None = None, world_size: int | None = None) -> Ranks:
        """As given; else as torch.distributed says; else RANK and WORLD_SIZE, which torchrun sets; else alone.

        Raises:
            UsageError: only one of the two is known, or the rank is out of range.
        """
        if (rank is None) != (world_size is None):
            raise UsageError(f"rank={rank} and world_size={world_size} go together", "give both, or neither")
        if rank is None or world_size is None:
            rank, world_size = rank_and_world_size()
        if not 0 <= rank < world_size:
            raise UsageError(f"rank must be from 0 to {world_size - 1} (world_size={world_size}), got {rank}")
        return cls(rank, world_size)

    def slice_of(self, count: int) -> slice:
        """This rank's part of `count` samples: contiguous, and as large as everybody's, give or take one."""
        return slice(self.rank * count // self.world_size, (self.rank + 1) * count // self.world_size)

    def require_one_each(self, count: int, last_batch: LastBatch) -> None:
        """Raise UsageError when a global batch of `count` samples is too small for all, unless that is wanted."""
        if 0 < count < self.world_size and last_batch != "uneven":
            raise UsageError(
                f"a global batch of {count} samples leaves some of {self.world_size} ranks without any, and the others "
                "would wait for them for ever",
                "give last_batch='drop' or last_batch='pad', or last_batch='uneven' where ranks may take unequal "
                "numbers of steps",
            )
