"""Batches as loaders hand them over: which indices each was made of, and its place in the epoch."""

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
    draws: bool | None = None  # the order was drawn from a global generator; None before it was drawn


class _Loader:
    """A loader: number `number` of all that were iterated; of one `kind` are those that are known by the same."""

    def __init__(self, number: int, kind: int, data: object) -> None:
        self.number, self.kind, self.times = number, kind, 0
        # A list cannot be watched: one stands for all of its kind.
        self._data = weakref.ref(data) if type(data).__weakrefoffset__ else None

    def loads(self, data: object) -> bool:
        return self._data is None or self._data() is data


class Fetches:
    """Notes every batch."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.count = 0  # of batches that were handed over in this process
        self._epochs: WeakKeyDictionary[object, _Epoch] = WeakKeyDictionary()
        # What loaders are known by → those that are known by the same: frameworks iterate several at one line.
        self._loaders: dict[object, list[_Loader]] = {}
        self._states: dict[str, int] = {}
        recorder.on(Event.ITERATES, self._begins)
        recorder.on(Event.ITERATED, self._begun)
        recorder.on(Event.DRAWS, self._draws)
        recorder.on(Event.DRAWN, self._drawn)
        recorder.on(Event.FETCHED, self._handed_over)

    def _begins(self, loader: object) -> None:
        # Persistent workers serve one epoch after the other; what was left of the last one is not handed over.
        if (kept := getattr(loader, "_iterator", None)) is not None:
            self._epochs.pop(kept, None)

    def _begun(self, loader: torch.utils.data.DataLoader[object], iterator: object) -> None:
        if iterator.__class__.__module__ != "torch.utils.data.dataloader":
            return
        known = self._known(loader)
        epoch = self._epochs.setdefault(iterator, _Epoch())
        epoch.loader, epoch.kind, epoch.number, epoch.position = known.number, known.kind, known.times, 0
        epoch.ahead = loader.num_workers * (loader.prefetch_factor or 0)
        known.times += 1

    def _known(self, loader: torch.utils.data.DataLoader[object]) -> _Loader:
        """The loader of this very dataset, or a new one; what takes another's place is told when all is known."""
        data = _dataset(loader)
        alike = self._loaders.setdefault(_known_by(loader, data), [])
        found = next((one for one in alike if one.loads(data)), None)
        if found is None:
            kind = alike[0].kind if alike else len(self._loaders)
            found = _Loader(sum(map(len, self._loaders.values())), kind, data)
            alike.append(found)
        return found

    def _draws(self, iterator: object) -> None:
        # Samplers draw when they are asked for the first time.
        if self._epochs.setdefault(iterator, _Epoch()).draws is None:
            self._states = generator_states()

    def _drawn(self, iterator: torch.utils.data.dataloader._BaseDataLoaderIter, indices: object) -> None:
        epoch = self._epochs.setdefault(iterator, _Epoch())
        epoch.waiting.append(_digest(_meant(iterator._dataset, indices)))
        if epoch.draws is None:
            epoch.draws = generator_states() != self._states

    def skip(self, iterator: torch.utils.data.dataloader._BaseDataLoaderIter, batches: int) -> None:
        """Pass batches over, as a script does that resumes within an epoch."""
        for _ in range(batches):
            iterator._next_data()
            self._epochs[iterator].waiting.popleft()
            self._epochs[iterator].position += 1

    def _handed_over(self, iterator: object, batch: object) -> None:
        self.count += 1
        epoch = self._epochs.setdefault(iterator, _Epoch())
        indices = epoch.waiting.popleft() if epoch.waiting else ""
        if not self.recorder.lane.log.broken:
            log = self.recorder.main.log
            place = epoch.loader, epoch.number, epoch.position, epoch.ahead, bool(epoch.draws)
            self.recorder.journal.note(
                BatchFetched(log.step, max(0, log.counts["batch"] - 1), indices, *place, log.rank, epoch.kind)
            )
        epoch.position += 1


def _known_by(loader: torch.utils.data.DataLoader[object], data: object) -> object:
    """The line that iterates it, and what it loads: a loader that is made anew for every epoch is the same one."""
    site = user_site()
    return (None if site is None else site.key), type(data).__qualname__, _size(data), loader.batch_size


def _dataset(loader: torch.utils.data.DataLoader[object]) -> object:
    """The user's: a loader of samebits has one of its own around it."""
    data = loader.dataset
    while type(data).__module__.startswith("samebits.") and hasattr(data, "dataset"):
        data = data.dataset
    return data


def _size(dataset: Any) -> int:
    """Of a dataset that has one; torch's own sampler has asked it before."""
    try:
        return 0 if isinstance(dataset, torch.utils.data.IterableDataset) else len(dataset)
    except Exception:  # it is the user's, and need not have one
        return 0


def _meant(dataset: object, indices: object) -> object:
    """The samples that those of a subset stand for: the rest of an epoch counts from 0, and is not its beginning."""
    while type(dataset) is torch.utils.data.Subset and isinstance(indices, list):
        own, dataset = dataset.indices, dataset.dataset
        if torch.is_tensor(own) or type(own).__module__ == "numpy":
            indices = [int(own[one]) for one in indices]
        elif isinstance(own, list | tuple | range):
            indices = [own[one] for one in indices]
        else:
            break  # of the user's own, which is not asked
    return indices


def _digest(indices: object) -> str:
    """Of what a sampler gave; an iterable dataset is asked for nothing in particular."""
    if isinstance(indices, list) and all(one is None for one in indices):
        return ""
    return hashlib.blake2b(repr(indices).encode(), digest_size=8).hexdigest()
