"""accelerate: a loader that `prepare` returns unchanged, and whose position `save_state` and `load_state` keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import torch.utils.data
from accelerate.data_loader import DataLoaderStateMixin
from accelerate.state import GradientState, PartialState
from accelerate.utils import send_to_device

from samebits.base.errors import UsageError
from samebits.data.fetching import Skipped
from samebits.data.loader import DataLoader
from samebits.state.gradients import WaitingGradients as WaitingGradients

__all__ = ["Loader", "WaitingGradients"]


class Loader(torch.utils.data.DataLoader[object], DataLoaderStateMixin):  # type: ignore[misc]
    """A `samebits.data.DataLoader` for accelerate, which saves and loads its position with everything else.

    >>> loader = Loader(dataset, batch_size=64, shuffle=True, seed=0)
    >>> model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    >>> accelerator.register_for_checkpointing(WaitingGradients(model=model))

    `batch_size` is the size of the global batch, of which each process gets a contiguous part; accelerate's own loaders
    take it as the size of the batch of one process.

    After `load_state`, the first iteration is the rest of the epoch that was saved, whose number is
    `loader.state_dict()["epoch"]`: skip no batches. An epoch that was left early counts as over; to continue within it,
    save before the `break`. The third line saves and restores the gradients of an unfinished accumulation.

    Args:
        dataset: map-style, or iterable.
        args: as for torch's DataLoader.
        seed: root seed; the order and all sample randomness are derived from it.
        options: as for `samebits.data.DataLoader`.
    """

    # `prepare` takes the first for the mark of a loader that it made itself; saving and loading look for the second.
    _is_accelerate_prepared = True
    use_stateful_dataloader = True

    def __init__(self, dataset: Any, *args: Any, seed: int, **options: Any) -> None:
        # accelerate tests for the base class, of which nothing is used: so its `__init__` is not called.
        self._loader = DataLoader(dataset, *args, seed=seed, **options)
        self.dataset, self.batch_size = dataset, self._loader.batch_size
        self.num_workers, self.drop_last = self._loader.num_workers, self._loader.last_batch == "drop"
        self.gradient_state = GradientState()
        self._drop_last = self.drop_last

    @property
    def total_batch_size(self) -> int:
        """The number of samples in one batch, over all processes."""
        return self.batch_size or PartialState().num_processes

    @property
    def skipped(self) -> list[Skipped]:
        """Index and error of each sample that this process has left out of the current epoch so far."""
        return self._loader.skipped

    @property
    def sampler(self) -> NoReturn:  # type: ignore[override]
        """Raise UsageError: `skip_first_batches` reads this, and would make a plain loader of this one."""
        raise UsageError(
            "skip_first_batches() would make a plain loader out of a samebits.integrations.accelerate.Loader",
            "leave it out: after accelerator.load_state() the loader continues with the next batch",
        )

    batch_sampler = sampler

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[object]:  # type: ignore[override]
        self.begin()
        device = PartialState().device
        try:
            batches = iter(self._loader)
            for batch in batches:
                # accelerate asks whether a batch is the last one.
                self.end_of_dataloader = batches.is_at_end()
                yield send_to_device(batch, device)
        finally:
            self.end()

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration this epoch, counted from 0; without this call, epochs count up from 0."""
        self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, object]:
        """Return the position, as `samebits.data.DataLoader` does."""
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Make the next iteration continue with the batch after the saved position."""
        self._loader.load_state_dict(state)
