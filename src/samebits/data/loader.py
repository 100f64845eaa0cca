"""DataLoader: torch's loader, with batches that depend only on (seed, epoch, index)."""

from __future__ import annotations

import itertools
from operator import index
from typing import Any, get_args

import torch
import torch.utils.data
from torch.utils.data import IterableDataset
from torch.utils.data.distributed import DistributedSampler

from samebits.base.errors import UsageError
from samebits.base.ranks import World, current_world
from samebits.base.seeds import derive
from samebits.data.epochs import EpochIterator, Epochs, OnError
from samebits.data.fetching import Skipped
from samebits.data.order import LastBatch, order_of, own_batches, own_part
from samebits.data.streams import Mapped

_made = itertools.count()


def whole_number(value: Any, name: str) -> int:
    """Return the value as a Python int; raise UsageError if it is not a whole number."""
    try:
        return index(value)
    except TypeError:
        hint = f"give int({value!r})" if isinstance(value, float) and value.is_integer() else ""
        raise UsageError(f"{name} must be a whole number, got {value!r}", hint) from None


def world_of(rank: int | None, world_size: int | None) -> World:
    """Return rank and size, given or from `current_world`; UsageError if one is missing or the rank is out of range."""
    if (rank is None) != (world_size is None):
        raise UsageError(f"rank={rank} and world_size={world_size} go together", "give both, or neither")
    world = current_world() if rank is None or world_size is None else World(rank, world_size)
    if not 0 <= world.rank < world.size:
        raise UsageError(f"rank must be from 0 to {world.size - 1} (world_size={world.size}), got {world.rank}")
    return world


class DataLoader(torch.utils.data.DataLoader[object]):
    """A DataLoader whose batches have the same bits for any `num_workers`, any number of ranks, and after any resume.

    Arguments and behaviour are those of torch's DataLoader, with these differences:

    - While a sample is fetched, every generator it may draw from (Python's, NumPy's and torch's global ones, those
      of accelerators in use, and those that the dataset and its transforms hold) starts from the sample's key, which is
      derived from seed, epoch, index, and how often the index came before. While a batch is collated, they start from
      the key of the batch. In the main process they are restored afterwards. The loader draws from no global generator.
    - `batch_size` is the size of the global batch: with several ranks, each rank gets a contiguous part of it.
    - Each iteration is an epoch of its own, also after an early `break`.

    >>> loader = DataLoader(list(range(6)), batch_size=4, shuffle=True, seed=0)
    >>> [len(batch) for batch in loader]
    [4, 2]
    >>> loader.state_dict()["epoch"]
    1

    Args:
        dataset: map-style, or iterable (see `Mapped`).
        args: as for torch's DataLoader.
        seed: root seed; the order and all sample randomness are derived from it. If left out, it is derived from the
            seed of `generator`, else of torch's global generator, and from how many such loaders were made before.
        rank: rank of this process, from 0; if left out, as torch.distributed or the environment says.
        world_size: number of ranks; given together with `rank`.
        last_batch: treatment of a last global batch that is not full: `keep` (the default) hands it over as it is, but
            refuses fewer samples than ranks; `uneven` accepts these, so some ranks end a batch earlier; `drop` leaves
            it out, as `drop_last=True` does; `pad` fills it up with the first samples of the epoch.
        on_error: `skip` leaves out samples that raise, for any number of workers alike, and lists them in `skipped`.
        options: as for torch's DataLoader.

    Raises:
        UsageError: arguments contradict each other, or would let the order depend on timing or on ranks.
    """

    def __init__(
        self,
        dataset: Any,
        *args: Any,
        seed: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        last_batch: LastBatch | None = None,
        on_error: OnError = "raise",
        **options: Any,
    ) -> None:
        if not options.get("in_order", True):
            raise UsageError(
                "in_order=False hands over whichever batch is ready first, so that the order depends on timing",
                "leave in_order out",
            )
        super().__init__(dataset, *args, **options)
        self._seed = None if seed is None else whole_number(seed, "seed")
        # Whether all ranks have this seed: it was given, or came with a loaded state.
        self._is_agreed = seed is not None
        self.rank, self.world_size, self.on_error = rank, world_size, on_error
        self._check(last_batch)
        self.last_batch: LastBatch = "drop" if self.drop_last else last_batch or "keep"
        torch_seed = (self.generator or torch.default_generator).initial_seed()
        root = derive(torch_seed, "loader", next(_made)) >> 1 if self._seed is None else self._seed
        self._epochs = Epochs(dataset, root, self.last_batch, on_error)

    def __iter__(self) -> EpochIterator:  # type: ignore[override]
        return self._epochs.begin(self, self._ranks())

    def __len__(self) -> int:
        """Return the number of batches in an epoch on this rank; there can be fewer if samples are skipped."""
        is_stream = isinstance(self.dataset, IterableDataset)
        if own_batches(self) is not None and not is_stream:
            return super().__len__()
        samples = len(self.dataset if is_stream else self.sampler)  # type: ignore[arg-type]
        ranks = self._ranks()
        full, rest = divmod(samples, self.batch_size or ranks.size)
        if self.last_batch == "uneven":
            part = own_part(ranks, rest)
            return int(full + (part.stop > part.start))
        return int(full + (rest > 0 and self.last_batch != "drop"))

    @property
    def seed(self) -> int | None:
        """The seed that was given; None if the seed is derived from torch's, or comes from a loaded state."""
        return self._seed

    @property
    def skipped(self) -> list[Skipped]:
        """Index and error of each sample that this rank has left out of the current epoch so far."""
        return list(self._epochs.skipped)

    def set_epoch(self, epoch: int) -> None:
        """Make the next iteration this epoch, counted from 0; without this call, epochs count up from 0."""
        self._epochs.set_epoch(whole_number(epoch, "epoch"))

    def set_position(self, epoch: int, batches: int) -> None:
        """Make the next iteration the rest of this epoch, after its first `batches` global batches.

        This is for frameworks that count batches themselves. A batch whose samples were all skipped counts, too.
        """
        self._epochs.set_position(self, whole_number(epoch, "epoch"), whole_number(batches, "batches"), self._ranks())

    def state_dict(self) -> dict[str, object]:
        """Return the position: a few whole numbers, the same on every rank unless samples were skipped.

        It is the position after the last batch that the user got, however many batches workers have prefetched. After
        a `break`, it is the beginning of the next epoch, with which this loader goes on; a StateWarning says so.
        """
        return self._epochs.state(self._sampler_name)

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Make the next iteration continue with the sample after the saved position, for any workers and ranks.

        Raises:
            DataStateError: the state is of a dataset of another length, of another seed or kind of sampler, or of a
                newer samebits.
        """
        self._epochs.load(state, self.seed is None, self._sampler_name)
        self._is_agreed = True

    @property
    def _sampler_name(self) -> str:
        return type(order_of(self, self.last_batch, 0).sampler).__qualname__

    def _check(self, last_batch: LastBatch | None) -> None:
        if last_batch is not None and last_batch not in get_args(LastBatch):
            raise UsageError(f"last_batch must be one of {', '.join(get_args(LastBatch))}, got {last_batch!r}")
        if self.drop_last and last_batch not in (None, "drop"):
            raise UsageError(
                f"drop_last=True and last_batch={last_batch!r} contradict each other", "give one of the two"
            )
        if own_batches(self) is not None and last_batch in ("drop", "pad"):
            raise UsageError(
                f"last_batch={last_batch!r} is for batches that the loader cuts, and batch_sampler makes its own",
                "leave last_batch out",
            )
        if self.on_error not in get_args(OnError):
            raise UsageError(f"on_error must be one of {', '.join(get_args(OnError))}, got {self.on_error!r}")
        is_stream = isinstance(self.dataset, IterableDataset)
        if self.on_error == "skip" and is_stream and not isinstance(self.dataset, Mapped):
            raise UsageError(
                "on_error='skip' cannot leave out elements of a stream, which ends where it raises",
                "use samebits.data.Mapped(stream, function): what its function raises can be skipped",
            )
        samplers = (self.sampler, self.batch_sampler, getattr(self.batch_sampler, "sampler", None))
        if any(isinstance(sampler, DistributedSampler) for sampler in samplers):
            raise UsageError(
                "a DistributedSampler would split the samples among the ranks a second time",
                "leave it out and say shuffle=True: each rank gets its part of the global batch of batch_size",
            )

    def _ranks(self) -> World:
        ranks = world_of(self.rank, self.world_size)
        if ranks.size > 1 and not self._is_agreed:
            raise UsageError(
                f"{ranks.size} ranks need one seed to agree on the order of samples, and none was given",
                "write DataLoader(..., seed=0)",
            )
        return ranks
