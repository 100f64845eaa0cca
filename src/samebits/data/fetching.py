"""Fetching one batch, sample by sample, each under its own key: the same code in a worker and in the main process."""

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
    """A batch, and what was left out of it; `is_empty` when nothing is left."""

    batch: object
    skipped: list[Skipped]
    is_empty: bool


class Fetcher(Dataset[object]):
    """A dataset of batches: `fetcher[request]` is the batch that is asked for.

    Args:
        skips: leave out samples that raise, and hand over `FetchedBatch` instead of the batch.
        working: for each worker its process id, and one more than the position that it fetches; shared by all.
        label: whatever the tracer wants to know about this loader.
    """

    # Calls what fetches a sample, given the fetcher and that; set by the data-workers factor.
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
        # Made in the process that fetches: a worker has its own copy of the dataset, and of what that holds.
        self._generators: Generators | None = None
        self._held: list[tuple[str, int]] = []
        self._is_settled = False
        self._draws_in_bulk = False

    def __reduce__(self) -> tuple[type[Fetcher], tuple[object, ...]]:
        # What it was made of: a worker that is sent one makes its own stems and generators.
        # A copy of a loader reads its own dataset: what stands in the arguments is copied.
        return type(self), (self.dataset, self.collate_fn, self.seed, self.skips, self.working, self.label)

    def __getitem__(self, request: BatchRequest) -> object:
        """Raises what the dataset raises, with a note that names the sample."""
        fetched: FetchedBatch = self._settled(partial(self._fetched, request))
        return fetched if self.skips else fetched.batch

    def _settled(self, fetch: Callable[[], T]) -> T:
        """What is fetched; the first time once more, where it made generators: `if self.rng is None: self.rng = …`."""
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
        """The generators, to be started at will; afterwards they stand where they stood.

        Workers of torch compute with one thread. So does the main process within, since the sum of a tensor may have
        other bits with two.
        """
        generators = self._found()
        if get_worker_info() is not None and Current.words is None:
            # A worker draws for nothing but samples.
            try:
                yield generators
            finally:
                Current.words = None
            return
        threads = torch.get_num_threads()
        with generators.put_aside():
            torch.set_num_threads(1)
            try:
                yield generators
            finally:
                torch.set_num_threads(threads)

    def _found(self) -> Generators:
        """What may be drawn from; looked for anew when the dataset has been given something else to hold."""
        # A counter that moves with every sample holds no generator.
        own = getattr(self.dataset, "__dict__", {}).items()
        held = [(name, id(value)) for name, value in own if not issubclass(type(value), int | float | str)]
        if self._generators is None or held != self._held:
            self._held = held
            self._generators = Generators(("dataset", self.dataset), ("collate_fn", self.collate_fn))
        return self._generators

    def states(self) -> list[object]:
        """Where every generator stands, as something that can be compared."""
        return [] if self._generators is None else self._generators.frozen()

    def _start(self, generators: Generators, epoch: int, index: object, repeat: int) -> None:
        generators.start(self._derivers["sample"].key(epoch, index_word(index), repeat))

    def samples(self, request: BatchRequest, generators: Generators, skipped: list[Skipped]) -> list[object]:
        """The samples that are asked for."""
        in_bulk = request.is_batch and _fetches_in_bulk(self.dataset)
        if in_bulk and not self._draws_in_bulk:
            samples = self._in_bulk(request, generators)
            if samples is not None:
                return samples
        found: list[object] = []
        for number, (index, repeat) in enumerate(zip(request.indices, request.repeats, strict=True)):
            self._start(generators, request.epoch, index, repeat)
            self.one(partial(self._sample, index, in_bulk), request.start + number, index, found, skipped)
        return found

    def one(self, fetch: Fetch, position: int, index: object, found: list[object], skipped: list[Skipped]) -> None:
        """Fetch one sample, or leave it out where that is wanted."""
        self._report(position)
        try:
            found.append(fetch() if Fetcher.tracer is None else Fetcher.tracer(self, fetch))
        except Exception as error:
            if not self.skips:
                where = f"while fetching sample {index!r}, number {position} of its epoch"
                if isinstance(error, StopIteration):
                    # As it is, it would end the epoch, unnoticed.
                    raise RuntimeError(f"StopIteration was raised {where}") from error
                note(error, where)
                raise
            skipped.append(Skipped(index, f"{type(error).__name__}: {error}"))

    def alone(self, epoch: int, index: object, repeat: int = 0) -> object:
        """One sample, neither batched nor skipped."""

        def fetch() -> object:
            with self.keyed() as generators:
                self._start(generators, epoch, index, repeat)
                return self._sample(index, _fetches_in_bulk(self.dataset))

        return self._settled(fetch)

    def _sample(self, index: object, in_bulk: bool) -> object:
        return self.dataset.__getitems__([index])[0] if in_bulk else self.dataset[index]

    def _in_bulk(self, request: BatchRequest, generators: Generators) -> list[object] | None:
        """What the dataset fetches at once; None when it drew, since a draw has to belong to one sample."""
        self._report(request.start)
        generators.start(self._derivers["batch"].key(request.epoch, request.start, "samples"))
        before = generators.frozen()
        # One by one, a sample that raises can be named, or left out.
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
            note(error, f"while collating samples {list(request.indices)!r}")
            raise

    def _report(self, position: int) -> None:
        info = get_worker_info()
        if info is not None and self.working is not None:
            self.working[2 * info.id : 2 * info.id + 2] = os.getpid(), position + 1


def prepare_worker(worker_init_fn: Callable[[int], object] | None, is_needed_longer: bool, worker_id: int) -> None:
    """Show the user's dataset in a worker's `get_worker_info()`, and call the user's own function.

    Every worker reads a stream as a whole. A function that shares it out among workers, as torch's documentation has
    it, knows that there is one, and leaves it whole. A worker is needed longer where the training ends a while after it
    was asked to.
    """
    if is_needed_longer and hasattr(os, "setpgid"):
        # torchrun and schedulers signal whole process groups: the worker would be gone in the middle of the last step.
        # It still ends with its parent, and by its parent's signal.
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
    # torch forbids assigning to it, to prevent mistakes.
    for name, value in values.items():
        object.__setattr__(info, name, value)


def _fetches_in_bulk(dataset: object) -> bool:
    """Whether it has a way of its own to fetch many samples; torch's Subset only passes them on."""
    while type(dataset) is Subset:
        dataset = dataset.dataset
    return bool(getattr(dataset, "__getitems__", None))


def fetch(dataset: object, index: object, *, seed: int = 0, epoch: int = 0, repeat: int = 0) -> object:
    """One sample exactly as a loader with this seed fetches it, in this process.

    Args:
        dataset: map-style.
        index: as the sampler gives it.
        seed: the loader's.
        epoch: counts from 0.
        repeat: how often the index has come before in this epoch.
    """
    return Fetcher(dataset, as_it_is, seed).alone(epoch, index, repeat)


def as_it_is(samples: object) -> object:
    """Collate nothing; for a loader whose dataset gives whole batches."""
    return samples


def note(error: BaseException, text: str) -> None:
    """Say it below the error: as a note, or, before Python 3.11, at the end of its message."""
    if hasattr(error, "add_note"):
        error.add_note(text)
    elif error.args and isinstance(error.args[0], str):
        error.args = (f"{error.args[0]}\n{text}", *error.args[1:])
