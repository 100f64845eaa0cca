"""Lightning: a loader that follows the position of its Trainer, and a callback that keys all other draws.

Both `lightning` and `pytorch_lightning` are supported.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from torch.utils._pytree import tree_leaves

from samebits.base.errors import StateWarning, UsageError
from samebits.data.fetching import Skipped
from samebits.data.generators import StepGenerators
from samebits.data.loader import DataLoader
from samebits.state.gradients import WaitingGradients

_CHECKPOINT_KEY = "samebits"
# A loader that is shorter than another one is iterated again within an epoch; each repetition is keyed as an epoch.
_AGAIN = 1 << 32


def _callback_class() -> Any:
    """Return `Callback` of the package that is in use; a Trainer of the other package takes its subclasses as well."""
    names = ("lightning.pytorch", "pytorch_lightning")
    for name in [name for name in names if name in sys.modules] or names:
        try:
            return importlib.import_module(name).Callback
        except ModuleNotFoundError as error:
            if error.name != name.partition(".")[0]:
                raise
    raise UsageError(
        "samebits.integrations.lightning needs lightning or pytorch_lightning, and neither is installed",
        "install one of the two",
    )


class SamebitsCallback(_callback_class()):  # type: ignore[misc]
    """A callback that keys every draw by (seed, epoch, batch, rank), so neither an evaluation nor a resume changes it.

    >>> trainer = Trainer(callbacks=[SamebitsCallback(seed=0)])
    >>> trainer.fit(model, Loader(dataset, batch_size=64, shuffle=True, seed=0))

    The global generators of Python, NumPy and torch (on every device in use), and those that the LightningModule holds,
    start anew with every batch, evaluation and epoch. Gradients of an unfinished accumulation are saved and restored.

    Args:
        seed: root seed; all keys are derived from it.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self._generators: Any = None
        self._gradients: Any = None
        self._waiting: Mapping[str, Any] | None = None
        self._place: tuple[int, int] | None = None
        self._is_amid_epoch = False

    def arrive(self, epoch: int, batches: int) -> None:
        """Start the generators for a batch that a loader hands over; its number counts as in an uninterrupted run."""
        self._place = epoch, batches
        self._generators.start("batch", epoch, batches)

    def begin(self, what: str, trainer: object) -> None:
        """Start all generators from the key of `what`, such as `validation start`, and of the present batch."""
        self._generators.start(what, *(self._place or _place(trainer)))

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        if not hasattr(trainer.fit_loop, "restarted_mid_epoch"):
            raise UsageError(
                "this Lightning repeats the batch after which a checkpoint was saved, as all versions before 2.5 do",
                "update it to 2.5 or newer",
            )
        _callbacks[trainer], self._place, self._is_amid_epoch = self, None, False
        self._generators = StepGenerators(self.seed, ("model", pl_module), beside=(trainer,))
        self._gradients = WaitingGradients(model=pl_module)

    def teardown(self, trainer: object, pl_module: object, stage: str) -> None:
        _callbacks.pop(trainer, None)

    def on_train_start(self, trainer: Any, pl_module: object) -> None:
        _warn_of_other_loaders(trainer)
        if self._is_amid_epoch or trainer.fit_loop.restarting:
            _warn_of_plateau(trainer)
        if self._waiting is not None:
            self._gradients.load_state_dict(self._waiting)
            self._waiting = None

    def on_train_epoch_start(self, trainer: object, pl_module: object) -> None:
        self._generators.start("epoch start", _place(trainer)[0])

    def on_train_batch_start(self, trainer: object, pl_module: object, *args: object) -> None:
        # A `Loader` has started the generators for its batch already.
        if self._place is None:
            self.begin("batch start", trainer)

    def on_train_epoch_end(self, trainer: object, pl_module: object) -> None:
        self.begin("epoch end", trainer)

    def on_validation_start(self, trainer: object, pl_module: object) -> None:
        self.begin("validation start", trainer)

    def on_validation_end(self, trainer: object, pl_module: object) -> None:
        self.begin("validation end", trainer)

    def on_save_checkpoint(self, trainer: object, pl_module: object, checkpoint: dict[str, Any]) -> None:
        if _is_accumulating(trainer):
            checkpoint[_CHECKPOINT_KEY] = self._gradients.state_dict()

    def on_load_checkpoint(self, trainer: object, pl_module: object, checkpoint: dict[str, Any]) -> None:
        self._waiting = checkpoint.get(_CHECKPOINT_KEY)
        if "loops" in checkpoint:
            epochs = checkpoint["loops"]["fit_loop"]["epoch_progress"]["total"]
            self._is_amid_epoch = epochs["completed"] != epochs["ready"]


# The callbacks of the Trainers that are running.
_callbacks: WeakKeyDictionary[Any, SamebitsCallback] = WeakKeyDictionary()


class Loader:
    """A `samebits.data.DataLoader` that continues where its Trainer does, also after a resume.

    `batch_size` is the size of the global batch, of which each device gets a contiguous part: neither divide nor
    multiply it by the number of devices. Give the Trainer a `SamebitsCallback` as well. As a loader for evaluation it
    gives the same samples every time.

    It is no subclass of torch's DataLoader: the Trainer replaces those by new ones, with samplers of its own.

    Args:
        dataset: map-style, or iterable.
        args: as for torch's DataLoader.
        seed: root seed; the order and all sample randomness are derived from it.
        options: as for `samebits.data.DataLoader`.
    """

    def __init__(self, dataset: object, *args: object, seed: int, **options: Any) -> None:
        self._loader = loader = DataLoader(dataset, *args, seed=seed, **options)
        self.dataset, self.batch_size, self.num_workers = loader.dataset, loader.batch_size, loader.num_workers
        # Number of batches handed over → state of the loader, for the last two: the Trainer may fetch one ahead.
        self._states: dict[int, dict[str, object]] = {}
        self._loaded: Mapping[int, dict[str, object]] = {}

    @property
    def skipped(self) -> list[Skipped]:
        """Index and error of each sample that this rank has left out of the current epoch so far."""
        return self._loader.skipped

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Iterator[object]:
        # Trainers begin iterations that they never use, and before they know where to continue. So the position is
        # looked up when the first batch is asked for.
        trainer = next((one for one in list(_callbacks) if one.training and self in _train_loaders(one)), None)
        if trainer is not None:
            epoch, begin = _next_place(trainer)
            # In this mode of a `CombinedLoader`, a longer loader goes on alone when this one has ended.
            is_alone = trainer.fit_loop._combined_loader._mode == "max_size"
            if not (is_alone and 0 < _length(self._loader) <= begin):
                yield from self._for_training(_callbacks[trainer], epoch, begin)
            return
        if any(one.evaluating or one.predicting for one in list(_callbacks)):
            self._loader.set_position(0, 0)
        yield from self._loader

    def state_dict(self) -> dict[str, Any]:
        """Return the position if samples may be skipped; else nothing, since the Trainer itself counts batches.

        Raises:
            UsageError: the Trainer has no `SamebitsCallback`.
        """
        if not any(self in _train_loaders(one) for one in list(_callbacks)):
            raise UsageError(
                "a Trainer without a SamebitsCallback is saving a samebits.integrations.lightning.Loader, which would "
                "not continue where it was",
                "write Trainer(callbacks=[SamebitsCallback(seed=0)]); without Lightning, use samebits.data.DataLoader",
            )
        return {"states": dict(self._states)} if self._loader.on_error == "skip" else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._loaded = state.get("states", {})

    def _for_training(self, callback: SamebitsCallback, epoch: int, begin: int) -> Iterator[object]:
        self._stand(epoch, begin)
        done = begin
        # The generators start before the batch is handed over: moving it to its device may draw as well.
        for done, batch in enumerate(self._loader, begin + 1):
            if self._loader.on_error == "skip":
                self._states = {**dict([*self._states.items()][-1:]), done: self._loader.state_dict()}
            callback.arrive(epoch, done)
            yield batch
        callback.arrive(epoch, done + 1)

    def _stand(self, epoch: int, done: int) -> None:
        """Make the next iteration begin after the batches of the Trainer's epoch that are done."""
        length = _length(self._loader)
        times, batches = divmod(done, length) if length else (0, done)
        own_epoch = epoch + times * _AGAIN
        saved = self._loaded.get(done, {})
        if saved.get("epoch") == own_epoch:
            # Batches whose samples were all skipped were never handed over, so the Trainer did not count them.
            self._loader.load_state_dict(saved)
        else:
            self._loader.set_position(own_epoch, batches)


def _place(trainer: Any) -> tuple[int, int]:
    """Return the epoch and the number of its current batch, counted from 1."""
    loop = trainer.fit_loop
    return loop.epoch_progress.current.processed, loop.epoch_loop.batch_progress.current.ready


def _next_place(trainer: Any) -> tuple[int, int]:
    """Return the epoch of the batch that comes next, and how many batches of that epoch are done.

    This holds also for a Trainer that was just restored and has not checked yet whether the epoch is over.
    """
    loop = trainer.fit_loop
    epochs, batches = loop.epoch_progress.current, loop.epoch_loop.batch_progress
    if batches.is_last_batch:
        return max(epochs.ready, epochs.processed), 0
    return epochs.processed, batches.current.processed


def _train_loaders(trainer: Any) -> list[object]:
    return [one for one in tree_leaves(trainer.train_dataloader) if one is not None]


def _length(loader: DataLoader) -> int:
    """Return the number of batches in an epoch; 0 if unknown."""
    try:
        return len(loader)
    except TypeError:
        return 0


def _is_accumulating(trainer: Any) -> bool:
    batches = trainer.fit_loop.epoch_loop.batch_progress
    if not trainer.lightning_module.automatic_optimization:
        return True
    return bool(batches.current.ready % trainer.accumulate_grad_batches) and not batches.is_last_batch


def _warn_of_plateau(trainer: Any) -> None:
    # Lightning updates these schedulers after everything that saves, and skips the update in the epoch that it resumes
    # in: what they monitor is in no checkpoint. With manual optimization the user's own code updates them.
    if trainer.lightning_module.automatic_optimization and any(
        config.reduce_on_plateau for config in trainer.lr_scheduler_configs
    ):
        warnings.warn(
            "Lightning skips the update of ReduceLROnPlateau in the epoch that it resumes in, so learning rates "
            "may differ from here on; a checkpoint that is saved in on_train_end() misses none",
            StateWarning,
            stacklevel=2,
        )


def _warn_of_other_loaders(trainer: object) -> None:
    for loader in _train_loaders(trainer):
        if not isinstance(loader, Loader):
            kind = type(loader)
            warnings.warn(
                f"the Trainer trains with a {kind.__module__}.{kind.__qualname__}: resumed within an epoch it "
                "continues with other batches; use samebits.integrations.lightning.Loader",
                StateWarning,
                stacklevel=2,
            )
