"""transformers: a callback that keys everything that a Trainer draws, in its loader and in its steps."""

from __future__ import annotations

from typing import Any

import transformers
from torch.utils.data import RandomSampler

from samebits.base.errors import UsageError
from samebits.data.fetching import as_it_is
from samebits.data.generators import StepGenerators
from samebits.data.keys import KeyedDataset, KeyedSampler


class SamebitsCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """Keys every draw of a training: neither workers, nor an evaluation, nor a resume move them.

    >>> trainer = Trainer(model, args, train_dataset=dataset, callbacks=[SamebitsCallback(seed=0)])

    While a sample is fetched, every generator that it may draw from starts from the key of (seed, epoch, index), while
    a batch is collated from that of the batch: masking collators resume exactly. Every step starts from the key of
    (seed, step, rank). A shuffled order hangs on (seed, epoch), no longer on `data_seed`.

    `per_device_train_batch_size` is what it was: of one device, so that the global batch is as many times larger as
    there are devices.

    Args:
        seed: what all keys hang on.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: Any = None

    def on_train_begin(self, args: Any, state: Any, control: object, **kwargs: object) -> None:
        """Raises UsageError: the dataset is iterable, the resume is none, or this transformers is too old."""
        if state.global_step and args.ignore_data_skip:
            raise UsageError(
                f"ignore_data_skip=True begins the epoch anew at step {state.global_step}, so the resumed training "
                "would see other batches",
                "leave ignore_data_skip out",
            )
        loader = kwargs.get("train_dataloader")
        if loader is None:
            raise UsageError(
                f"transformers {transformers.__version__} does not tell its callbacks which loader it trains with",
                "update transformers to 4.50 or newer",
            )
        _key_loader(loader, self.seed)
        self._generators = StepGenerators(self.seed, ("model", kwargs["model"]))

    def on_epoch_begin(self, args: object, state: Any, control: object, **kwargs: object) -> None:
        self._generators.start("epoch begin", state.global_step)

    def on_step_begin(self, args: object, state: Any, control: object, **kwargs: object) -> None:
        self._generators.start("step begin", state.global_step)

    def on_epoch_end(self, args: object, state: Any, control: object, **kwargs: object) -> None:
        self._generators.start("epoch end", state.global_step)


def _key_loader(loader: Any, seed: int) -> None:
    """Let a loader that the Trainer made yield keyed batches; those that it makes of its parts will do so, too."""
    inner = getattr(loader, "base_dataloader", loader)
    if isinstance(inner.dataset, KeyedDataset):
        return
    keyed = KeyedDataset(inner.dataset, inner.collate_fn, seed)
    levels = _levels(inner.batch_sampler)
    if not hasattr(levels[-1], "sampler"):
        raise UsageError(
            f"the train loader makes its batches by a {type(levels[-1]).__name__}, which has no sampler of indices",
            "leave train_sampling_strategy at random, sequential or group_by_length",
        )
    sampler = KeyedSampler(_unseeded(levels[-1].sampler), seed, keyed.dataset)
    for level in levels:
        level.sampler = sampler
    # torch forbids to assign to it, for those who iterate the loader already.
    vars(inner)["dataset"], inner.collate_fn = keyed, as_it_is


def _levels(batches: Any) -> list[Any]:
    """A sampler of batches, and those that it shares out among ranks."""
    levels = [batches]
    while hasattr(levels[-1], "batch_sampler"):
        levels.append(levels[-1].batch_sampler)
    return levels


def _unseeded(sampler: object) -> Any:
    """One of torch's in the place of accelerate's, which is seeded by whatever torch was seeded with last."""
    if isinstance(sampler, RandomSampler):
        return RandomSampler(sampler.data_source, sampler.replacement, sampler._num_samples)
    return sampler
