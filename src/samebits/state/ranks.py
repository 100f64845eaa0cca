"""Agreement between the ranks of one training; a rank that is alone communicates with nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from samebits.base.errors import SamebitsError, StateError, error_from_data
from samebits.base.ranks import World, current_world

T = TypeVar("T")


class RankGroup:
    """The ranks that train together.

    All of them have to call the same methods in the same order. They communicate through a gloo group of their own
    where gloo is available, so that no accelerator is waited for.
    """

    def __init__(self) -> None:
        self._groups: dict[World, Any] = {}

    def gathered(self, own: object) -> list[Any]:
        """Return the values of all ranks, in rank order; StateError if torch.distributed is not initialised."""
        world_size = current_world().size
        if world_size == 1:
            return [own]
        answers: list[Any] = [None] * world_size
        torch.distributed.all_gather_object(answers, own, group=self._group())
        return answers

    def is_any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank: one reduction of a number."""
        if current_world().size == 1:
            return flag
        group = self._group()
        device = "cpu" if group is not None else torch.accelerator.current_accelerator()
        number = torch.tensor(int(flag), device=device)
        torch.distributed.all_reduce(number, op=torch.distributed.ReduceOp.MAX, group=group)
        return bool(number)

    def done_by_all(self, work: Callable[[], T]) -> list[T]:
        """Work on every rank, and return all results; if one rank fails, all raise, the others with its number."""
        result: T | None = None
        failure: SamebitsError | None = None
        try:
            result = work()
        except SamebitsError as error:
            failure = error
        except Exception as error:
            failure = StateError(f"{type(error).__name__}: {error}")
            failure.__cause__ = error
        answers = self.gathered((result, None if failure is None else failure.as_data()))
        if failure is not None:
            raise failure
        for rank, (_, data) in enumerate(answers):
            if data is not None:
                raise error_from_data({**data, "message": f"rank {rank}: {data['message']}"})
        return [answer for answer, _ in answers]

    def done_by_first(self, work: Callable[[], object]) -> Any:
        """Work on rank 0 alone, and return its result on every rank; if it fails there, all raise."""
        return self.done_by_all(lambda: work() if current_world().rank == 0 else None)[0]

    def _group(self) -> Any:
        """Return the gloo group, or None, which means torch's default group."""
        distributed, world = torch.distributed, current_world()
        if not distributed.is_available() or not distributed.is_initialized():
            raise StateError(
                f"this is rank {world.rank} of {world.size}, and torch.distributed is not initialised",
                "call torch.distributed.init_process_group() first: ranks have to agree on a checkpoint",
            )
        if world not in self._groups:
            has_gloo = distributed.is_gloo_available()
            self._groups[world] = distributed.new_group(backend="gloo") if has_gloo else None
        return self._groups[world]
