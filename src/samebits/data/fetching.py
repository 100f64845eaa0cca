"""Fetches a batch, sample by sample, each under its own key, by the same code in a worker and in the main process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeVar

import torch
from torch.utils.data import Dataset, IterableDataset, Subset, get_worker_info

from samebits.base.seeds import KeyDeriver
from samebits.data.generators import Current, Generators
from samebits.data.order import BatchRequest, index_word

Fetch = Callable[[], object]
T = TypeVar("T")


class Skipped(NamedTuple):
    """A sample that was left out because fetching it raised."""

    index: Any
    error: str


class FetchedBatch(NamedTuple):
    """A batch, and the samples that were left out of it; `is_empty` if no sample remains."""

    batch: object
    skipped: list[Skipped]
    is_empty: bool


class Fetcher(Dataset[object]):
    """A dataset of batches: `fetcher[request]` is the batch for a `BatchRequest`.

    Args:
        skips: leave out samples that raise, and return a `FetchedBatch` instead of the batch.
        working: two numbers for each worker, its process id and the position that it fetches plus 1; shared by all.
        label: tells the tracer which loader this is.
    """

    # Called as `tracer(fetcher, fetch)` in the place of `fetch()`, for each sample; set by the data-workers factor.
    tracer: ClassVar[Callable[[Fetcher, Fetch], object] | None] = None

    def __init__(
        self,
        dataset: Any,
        collate_fn: Callable[[Any], object],
        seed: int,
        skips: bool = False,
        working: Any = None,
        label: object = None,
    ) -> None:
        self.dataset, self.collate_fn, self.seed, self.skips, self.working = dataset, collate_fn, seed, skips, working
        self.label = label
        self._derivers = {name: KeyDeriver(seed, name) for name in ("sample", "batch", "stream")}
        # Found in the process that fetches: a worker has its own copy of the dataset and of the generators in it.
        self._generators: Generators | None = None
        self._held: list[tuple[str, int]] = []
        self._is_settled = False
        self._draws_in_bulk = False

    def __reduce__(self) -> tuple[type[Fetcher], tuple[object, ...]]:
        # Made anew from its arguments: so a worker finds its own generators, and a deep copy reads its own dataset.
        return type(self), (self.dataset, self.collate_fn, self.seed, self.skips, self.working, self.label)

    def __getitem__(self, request: BatchRequest) -> object:
        """Fetch a batch; an error that the dataset raises gets a note that names the sample."""
        fetched: FetchedBatch = self._settled(partial(self._fetched, request))
        return fetched if self.skips else fetched.batch

    def _settled(self, fetch: Callable[[], T]) -> T:
        """Return `fetch()`; the first time, fetch again if it made generators (`if self.rng is None: self.rng = …`)."""
        fetched = fetch()
        if self._is_settled:
            return fetched
        self._is_settled = True
        before, self._generators = self._generators, None
        return fetch() if before is not None and before.paths != self._found().paths else fetched

    def _fetched(self, request: BatchRequest) -> FetchedBatch:
        with self.keyed() as generators:
            skipped: list[Skipped] = []
            samples = self.samples(request, generators, skipped)
            batch = self._collated(request, samples, generators) if samples else None
        return FetchedBatch(batch, skipped, not samples)

    @contextmanager
    def keyed(self) -> Iterator[Generators]:
        """Lend the generators that a sample may draw from; in the main process, restore their states afterwards.

        torch's workers compute with one thread. So does the main process within this context, since the sum of a
        tensor may have different bits with two.
        """
        generators = self._found()
        if get_worker_info() is not None and Current.words is None:
            # A worker draws only for samples, so there is no state to restore.
            try:
                yield generators
            finally:
                Current.words = None
            return
        threads = torch.get_num_threads()
        with generators.restored_afterwards():
            torch.set_num_threads(1)
            try:
                yield generators
            finally:
                torch.set_num_threads(threads)

    def _found(self) -> Generators:
        """Return the generators that may be drawn from; search again if an attribute of the dataset was replaced."""
        # Numbers and texts hold no generator, and a counter that changes with every sample must not cause a search.
        attributes = getattr(self.dataset, "__dict__", {}).items()
        held = [(name, id(value)) for name, value in attributes if not issubclass(type(value), int | float | str)]
        if self._generators is None or held != self._held:
            self._held = held
            self._generators = Generators(("dataset", self.dataset), ("collate_fn", self.collate_fn))
        return self._generators

    def states(self) -> list[object]:
        """Return the state of every generator, in a form that can be compared."""
        return [] if self._generators is None else self._generators.frozen()

    def _start(self, generators: Generators, epoch: int, index: object, repeat: int) -> None:
        generators.start(self._derivers["sample"].key(epoch, index_word(index), repeat))

    def samples(self, request: BatchRequest, generators: Generators, skipped: list[Skipped]) -> list[object]:
        """Return the samples of a request; those that are left out are added to `skipped`."""
        in_bulk = request.is_batch and _fetches_in_bulk(self.dataset)
        if in_bulk and not self._draws_in_bulk:
            samples = self._in_bulk(request, generators)
            if samples is not None:
                return samples
        fetched: list[object] = []
        for number, (index, repeat) in enumerate(zip(request.indices, request.repeats, strict=True)):
            self._start(generators, request.epoch, index, repeat)
            self.fetch_into(partial(self._sample, index, in_bulk), request.start + number, index, fetched, skipped)
        return fetched

    def fetch_into(
        self, fetch: Fetch, position: int, index: object, found: list[object], skipped: list[Skipped]
    ) -> None:
        """Fetch one sample and add it to `found`; if it raises and may be left out, add it to `skipped`."""
        self._report(position)
        try:
            found.append(fetch() if Fetcher.tracer is None else Fetcher.tracer(self, fetch))
        except Exception as error:
            if not self.skips:
                where = f"while fetching sample {index!r}, number {position} of its epoch"
                if isinstance(error, StopIteration):
                    # Raised as it is, it would end the epoch unnoticed.
                    raise RuntimeError(f"StopIteration was raised {where}") from error
                annotate_error(error, where)
                raise
            skipped.append(Skipped(index, f"{type(error).__name__}: {error}"))

    def alone(self, epoch: int, index: object, repeat: int = 0) -> object:
        """Fetch one sample by itself; it is neither collated nor skipped."""

        def fetch() -> object:
            with self.keyed() as generators:
                self._start(generators, epoch, index, repeat)
                return self._sample(index, _fetches_in_bulk(self.dataset))

        return self._settled(fetch)

    def _sample(self, index: object, in_bulk: bool) -> object:
        return self.dataset.__getitems__([index])[0] if in_bulk else self.dataset[index]

    def _in_bulk(self, request: BatchRequest, generators: Generators) -> list[object] | None:
        """Return samples that the dataset fetches at once; None if it drew: a draw has to belong to one sample."""
        self._report(request.start)
        generators.start(self._derivers["batch"].key(request.epoch, request.start, "samples"))
        before = generators.frozen()
        # After an error, samples are fetched one by one, so that the one that raises can be named or left out.
        with suppress(Exception):
            samples = list(self.dataset.__getitems__(list(request.indices)))
            if generators.frozen() == before:
                return samples
        self._draws_in_bulk = True
        return None

    def _collated(self, request: BatchRequest, samples: list[object], generators: Generators) -> object:
        generators.start(self._derivers["batch"].key(request.epoch, request.start))
        try:
            return self.collate_fn(samples if request.is_batch else samples[0])
        except Exception as error:
            annotate_error(error, f"while collating samples {list(request.indices)!r}")
            raise

    def _report(self, position: int) -> None:
        info = get_worker_info()
        if info is not None and self.working is not None:
            self.working[2 * info.id : 2 * info.id + 2] = os.getpid(), position + 1


def prepare_worker(worker_init_fn: Callable[[int], object] | None, is_needed_longer: bool, worker_id: int) -> None:
    """Show the user's dataset in a worker's `get_worker_info()`, and call the user's `worker_init_fn`.

    Every worker reads a stream whole. A `worker_init_fn` that splits the stream among workers, as in torch's
    documentation, is told that there is one worker. `is_needed_longer`: the training goes on for a while after SIGTERM.
    """
    if is_needed_longer and hasattr(os, "setpgid"):
        # torchrun and schedulers signal whole process groups: the worker would be gone in the middle of the last step.
        # In a group of its own, it still ends with its parent, and when its parent signals it.
        os.setpgid(0, 0)
    info: Any = get_worker_info()
    shown = {"dataset": info.dataset.dataset}
    is_stream = isinstance(shown["dataset"], IterableDataset)
    if is_stream:
        shown |= {"id": 0, "num_workers": 1}
    before = {name: getattr(info, name) for name in ("id", "num_workers")}
    _assign(info, shown)
    if worker_init_fn is not None:
        worker_init_fn(0 if is_stream else worker_id)
    _assign(info, before)


def _assign(info: object, values: dict[str, object]) -> None:
    # torch forbids plain assignment to worker info, to prevent mistakes.
    for name, value in values.items():
        object.__setattr__(info, name, value)


def _fetches_in_bulk(dataset: object) -> bool:
    """Whether a dataset has a `__getitems__` of its own; that of torch's Subset only passes the indices on."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return bool(getattr(dataset, "__getitems__", None))


def fetch(dataset: object, index: object, *, seed: int = 0, epoch: int = 0, repeat: int = 0) -> object:
    """Fetch one sample in this process, with the same bits as in a `DataLoader` of this seed; it is not collated.

    Args:
        dataset: map-style.
        index: index of the sample, as the sampler gives it.
        seed: seed of the loader.
        epoch: number of the epoch, from 0.
        repeat: how often the index came before in this epoch; 0 unless the sampler repeats indices.

    Raises:
        UsageError: `index` is of a type that cannot be part of a key. Whatever the dataset raises is raised as well.
    """
    return Fetcher(dataset, collate_nothing, seed).alone(epoch, index, repeat)


def collate_nothing(samples: object) -> object:
    """Return the samples unchanged: the collate function of a loader whose dataset returns whole batches."""
    return samples


def annotate_error(error: BaseException, text: str) -> None:
    """Add a text to an error: as a note, or, before Python 3.11, at the end of its message."""
    if hasattr(error, "add_note"):
        error.add_note(text)
    elif error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}\n{text}", *error.args[1:])
