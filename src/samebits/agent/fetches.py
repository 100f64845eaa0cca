"""Notes batches as loaders hand them over: the indices that each was made of, and its place in the epoch."""

from __future__ import annotations

import hashlib
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from samebits.agent.events import Event
from samebits.base.sites import user_site
from samebits.rng.digests import generator_states
from samebits.runfolder.notes import BatchFetched

if TYPE_CHECKING:
    from samebits.agent.recorder import Recorder


@dataclass
class _Epoch:
    """One pass through a loader."""

    loader: int = 0
    kind: int = 0
    number: int = 0
    position: int = 0
    ahead: int = 0
    waiting: deque[str] = field(default_factory=deque)  # digests of indices whose batches were not handed over yet
    draws: bool | None = None  # whether a global generator drew the order; None before it was drawn


class _Loader:
    """A loader: number `number` of all that were iterated; loaders with one key, see `_key_of`, are of one `kind`."""

    def __init__(self, number: int, kind: int, data: object) -> None:
        self.number, self.kind, self.times = number, kind, 0
        # A list cannot be referred to weakly: one loader stands for all of its kind.
        self._data = weakref.ref(data) if type(data).__weakrefoffset__ else None

    def loads(self, data: object) -> bool:
        return self._data is None or self._data() is data


class Fetches:
    """Notes every batch that a loader hands over."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.count = 0  # of the batches that were handed over in this process
        self._epochs: WeakKeyDictionary[object, _Epoch] = WeakKeyDictionary()
        # Key → the loaders that have it: frameworks iterate several at one line.
        self._loaders: dict[object, list[_Loader]] = {}
        self._states: dict[str, int] = {}
        recorder.on(Event.ITERATES, self._begins)
        recorder.on(Event.ITERATED, self._begun)
        recorder.on(Event.DRAWS, self._draws)
        recorder.on(Event.DRAWN, self._drawn)
        recorder.on(Event.FETCHED, self._handed_over)

    def _begins(self, loader: object) -> None:
        # An iterator with persistent workers serves every epoch; what is left of the last epoch is not handed over.
        if (kept := getattr(loader, "_iterator", None)) is not None:
            self._epochs.pop(kept, None)

    def _begun(self, loader: torch.utils.data.DataLoader[object], iterator: object) -> None:
        if iterator.__class__.__module__ != "torch.utils.data.dataloader":
            return
        entry = self._known(loader)
        epoch = self._epochs.setdefault(iterator, _Epoch())
        epoch.loader, epoch.kind, epoch.number, epoch.position = entry.number, entry.kind, entry.times, 0
        epoch.ahead = loader.num_workers * (loader.prefetch_factor or 0)
        entry.times += 1

    def _known(self, loader: torch.utils.data.DataLoader[object]) -> _Loader:
        """Return the loader of this very dataset, or a new one; readers of the notes tell whether it replaces one."""
        data = _dataset(loader)
        same_key = self._loaders.setdefault(_key_of(loader, data), [])
        entry = next((candidate for candidate in same_key if candidate.loads(data)), None)
        if entry is None:
            kind = same_key[0].kind if same_key else len(self._loaders)
            entry = _Loader(sum(map(len, self._loaders.values())), kind, data)
            same_key.append(entry)
        return entry

    def _draws(self, iterator: object) -> None:
        # A sampler draws when it is first asked for indices.
        if self._epochs.setdefault(iterator, _Epoch()).draws is None:
            self._states = generator_states()

    def _drawn(self, iterator: torch.utils.data.dataloader._BaseDataLoaderIter, indices: object) -> None:
        epoch = self._epochs.setdefault(iterator, _Epoch())
        epoch.waiting.append(_digest(_meant(iterator._dataset, indices)))
        if epoch.draws is None:
            epoch.draws = generator_states() != self._states

    def skip(self, iterator: torch.utils.data.dataloader._BaseDataLoaderIter, batches: int) -> None:
        """Skip batches, as a script does that resumes within an epoch."""
        for _ in range(batches):
            iterator._next_data()
            self._epochs[iterator].waiting.popleft()
            self._epochs[iterator].position += 1

    def _handed_over(self, iterator: object, batch: object) -> None:
        self.count += 1
        epoch = self._epochs.setdefault(iterator, _Epoch())
        indices = epoch.waiting.popleft() if epoch.waiting else ""
        if not self.recorder.lane.log.has_stopped:
            log = self.recorder.main.log
            origin = epoch.loader, epoch.number, epoch.position, epoch.ahead, bool(epoch.draws)
            self.recorder.journal.note(
                BatchFetched(log.step, max(0, log.counts["batch"] - 1), indices, *origin, log.rank, epoch.kind)
            )
        epoch.position += 1


def _key_of(loader: torch.utils.data.DataLoader[object], data: object) -> object:
    """Return a loader's key, its line and what it loads: a loader that is made anew for every epoch keeps its key."""
    site = user_site()
    return (None if site is None else site.key), type(data).__qualname__, _size(data), loader.batch_size


def _dataset(loader: torch.utils.data.DataLoader[object]) -> object:
    """Return the user's dataset, around which a loader of samebits puts one of its own."""
    data = loader.dataset
    while type(data).__module__.startswith("samebits.") and hasattr(data, "dataset"):
        data = data.dataset
    return data


def _size(dataset: Any) -> int:
    """Return the length of a dataset, or 0 if it has none; torch's own sampler has asked for it before."""
    try:
        return 0 if isinstance(dataset, torch.utils.data.IterableDataset) else len(dataset)
    except Exception:  # the dataset is the user's, and need not have a length
        return 0


def _meant(dataset: object, indices: object) -> object:
    """Map indices of a `Subset` to those of its dataset: the rest of an epoch counts from 0, and is not its start."""
    while type(dataset) is torch.utils.data.Subset and isinstance(indices, list):
        subset_indices, dataset = dataset.indices, dataset.dataset
        if torch.is_tensor(subset_indices) or type(subset_indices).__module__ == "numpy":
            indices = [int(subset_indices[index]) for index in indices]
        elif isinstance(subset_indices, list | tuple | range):
            indices = [subset_indices[index] for index in indices]
        else:
            break  # of a class of the user's, which is not called
    return indices


def _digest(indices: object) -> str:
    """Return the digest of a sampler's indices; empty for an iterable dataset, which is asked for no index."""
    if isinstance(indices, list) and all(index is None for index in indices):
        return ""
    return hashlib.blake2b(repr(indices).encode(), digest_size=8).hexdigest()
