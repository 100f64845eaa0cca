"""What the ranks of one training settle together; alone, every question answers itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from samebits.base.errors import SamebitsError, StateError, error_from_data
from samebits.base.ranks import World, current_world

T = TypeVar("T")


class RankGroup:
    """The ranks that train together.

    All of them have to ask the same questions in the same order. What they say goes through a gloo group of its own
    where there is gloo, so that no accelerator is waited for.
    """

    def __init__(self) -> None:
        self._groups: dict[World, Any] = {}

    @property
    def world(self) -> World:
        """The ranks of this process as they are now."""
        return current_world()

    def said(self, own: object) -> list[Any]:
        """What every rank says, in the order of ranks; StateError where torch.distributed is not initialised."""
        if self.world.size == 1:
            return [own]
        answers: list[Any] = [None] * self.world.size
        torch.distributed.all_gather_object(answers, own, group=self._group())
        return answers

    def is_any(self, flag: bool) -> bool:
        """Whether it is so on any rank: one reduction of a number."""
        if self.world.size == 1:
            return flag
        group = self._group()
        device = "cpu" if group is not None else torch.accelerator.current_accelerator()
        number = torch.tensor(int(flag), device=device)
        torch.distributed.all_reduce(number, op=torch.distributed.ReduceOp.MAX, group=group)
        return bool(number)

    def done(self, work: Callable[[], T]) -> list[T]:
        """What the work came to on each rank; where it failed on one, all raise, the others with that rank's number."""
        own: T | None = None
        failure: SamebitsError | None = None
        try:
            own = work()
        except SamebitsError as error:
            failure = error
        except Exception as error:
            failure = StateError(f"{type(error).__name__}: {error}")
            failure.__cause__ = error
        answers = self.said((own, None if failure is None else failure.as_data()))
        if failure is not None:
            raise failure
        for rank, (_, data) in enumerate(answers):
            if data is not None:
                raise error_from_data({**data, "message": f"rank {rank}: {data['message']}"})
        return [answer for answer, _ in answers]

    def done_by_first(self, work: Callable[[], object]) -> Any:
        """The same of rank 0 alone, which works for all."""
        return self.done(lambda: work() if self.world.rank == 0 else None)[0]

    def _group(self) -> Any:
        """That of gloo, or None, which stands for torch's own."""
        distributed = torch.distributed
        if not distributed.is_available() or not distributed.is_initialized():
            raise StateError(
                f"this is rank {self.world.rank} of {self.world.size}, and torch.distributed is not initialised",
                "call torch.distributed.init_process_group() first: ranks have to agree on a checkpoint",
            )
        if self.world not in self._groups:
            has_gloo = distributed.is_gloo_available()
            self._groups[self.world] = distributed.new_group(backend="gloo") if has_gloo else None
        return self._groups[self.world]
