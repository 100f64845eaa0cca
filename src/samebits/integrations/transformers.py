"""transformers: a callback that keys everything that a Trainer draws, in its loader and in its steps."""

from __future__ import annotations

from typing import Any

import transformers
from torch.utils.data import RandomSampler

from samebits.base.errors import UsageError
from samebits.data.fetching import collate_nothing
from samebits.data.generators import StepGenerators
from samebits.data.keys import KeyedDataset, KeyedSampler


class SamebitsCallback(transformers.TrainerCallback):  # type: ignore[misc]
    """A callback that keys every draw of a training, so neither workers nor an evaluation nor a resume changes it.

    >>> trainer = Trainer(model, args, train_dataset=dataset, callbacks=[SamebitsCallback(seed=0)])

    While a sample is fetched, every generator that it may draw from starts from the key of (seed, epoch, index); while
    a batch is collated, from the key of the batch, so that masking collators resume exactly. Every step starts from the
    key of (seed, step, rank). A shuffled order depends on (seed, epoch), no longer on `data_seed`.

    `per_device_train_batch_size` keeps its meaning, the batch of one device: the global batch is as many times larger
    as there are devices.

    Args:
        seed: root seed; all keys are derived from it.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: Any = None

    def on_train_begin(self, args: Any, state: Any, control: object, **kwargs: object) -> None:
        """Key the train loader; UsageError for an iterable dataset, `ignore_data_skip`, or a transformers too old."""
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
    """Make a loader of the Trainer's yield keyed batches; loaders made later of its parts then do so, too."""
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
    # torch forbids plain assignment to `dataset`, to protect iterations that are under way.
    vars(inner)["dataset"], inner.collate_fn = keyed, collate_nothing


def _levels(batches: Any) -> list[Any]:
    """Return a batch sampler and those within it, whose batches the outer ones share out among ranks."""
    levels = [batches]
    while hasattr(levels[-1], "batch_sampler"):
        levels.append(levels[-1].batch_sampler)
    return levels


def _unseeded(sampler: object) -> Any:
    """Replace accelerate's random sampler, whose seed is whatever torch was seeded with last, by torch's own."""
    if isinstance(sampler, RandomSampler):
        return RandomSampler(sampler.data_source, sampler.replacement, sampler._num_samples)
    return sampler
