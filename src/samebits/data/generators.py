"""The generators that a sample may draw from: the libraries' global ones and those that objects hold.

They can all be put aside, started from the key of a sample, and restored exactly.
"""

from __future__ import annotations

import hashlib
import pickle
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import ClassVar, NamedTuple

import torch

from samebits.base.errors import UsageError
from samebits.base.ranks import current_world
from samebits.base.seeds import KeyDeriver
from samebits.rng.handles import States, accelerator_generators, handle_of, restore, torch_states
from samebits.rng.search import find_generators, is_seedable


class Words(NamedTuple):
    """The seed of each library's generators under one key; no two libraries share a part of the key.

    Attributes:
        numpy: 32 bits, as many as `numpy.random.seed` takes as one number.
        torch: 32 bits, as many as torch's CPU generator uses.
        rest: the part of the key from which the seeds of held generators are derived.
        made: library → the generator that `sample_generator` made for it.
    """

    python: int
    numpy: int
    torch: int
    accelerator: int
    rest: bytes
    made: dict[str, object]

    @classmethod
    def of(cls, key: bytes) -> Words:
        """Cut a key of 64 bytes into the seeds."""
        parts = (key[:16], key[16:20], key[20:24], key[24:32])
        python, numpy, for_torch, accelerator = (int.from_bytes(part, "little") for part in parts)
        return cls(python, numpy, for_torch, accelerator >> 1, key[32:], {})

    def of_held(self, path: str) -> int:
        """Return the seed, 128 bits, of the generator that an object holds at `path`."""
        raw = hashlib.blake2b(path.encode(errors="surrogatepass"), key=self.rest, digest_size=16).digest()
        return int.from_bytes(raw, "little")


class Generators:
    """Every generator that a call may draw from: the global ones, and those that `roots` hold now.

    Objects in `beside` are not searched. With `only_torch`, Python's and NumPy's global generators are left alone.
    """

    def __init__(self, *roots: tuple[str, object], only_torch: bool = False, beside: Iterable[object] = ()) -> None:
        # NumPy seeds itself when it is imported: so import it before a dataset does in the middle of a sample.
        libraries = {} if only_torch else {"python": random, "numpy": _numpy_random()}
        self._global = {name: handle_of(library) for name, library in libraries.items() if library is not None}
        generators = find_generators(*roots, beside=beside)
        self.paths = {path: id(one) for path, one in generators}
        self.held = [(path, handle_of(one)) for path, one in generators if is_seedable(one)]

    def states(self) -> States:
        """Return the present state of each generator, with the function that restores it."""
        handles = (*self._global.values(), *(handle for _, handle in self.held))
        return [*torch_states(torch), *((one.restore, one.state()) for one in handles)]

    def frozen(self) -> list[object]:
        """Return the present state of each generator, in a form that can be compared."""
        # The pickle of a tensor holds more than its values.
        plain = [state.tolist() if isinstance(state, torch.Tensor) else state for _, state in self.states()]
        return [pickle.dumps(state) for state in plain]

    @contextmanager
    def restored_afterwards(self) -> Iterator[None]:
        """Restore, on leaving, all generators and the record of which sample is being fetched."""
        states, words = self.states(), Current.words
        try:
            yield
        finally:
            restore(states)
            Current.words = words

    def start(self, key: bytes) -> None:
        """Start all generators from a key of 64 bytes."""
        words = Words.of(key)
        torch.default_generator.manual_seed(words.torch)
        for library, handle in self._global.items():
            handle.start(getattr(words, library))
        for generator in accelerator_generators(torch).values():
            generator.manual_seed(words.accelerator)
        for path, handle in self.held:
            handle.start(words.of_held(path))
        Current.words = words


class StepGenerators:
    """The generators of a training outside its loaders, started for each step: its draws depend on nothing before it.

    They are the global ones, and those that `roots` hold now. Objects in `beside` are not searched.
    """

    def __init__(self, seed: int, *roots: tuple[str, object], beside: Iterable[object] = ()) -> None:
        self._deriver = KeyDeriver(seed, "step")
        self._generators = Generators(*roots, beside=beside)

    def start(self, *words: str | int) -> None:
        """Start all generators from the key of `words`, such as ("batch", epoch, number), and of this rank."""
        self._generators.start(self._deriver.key(*words, "rank", current_world().rank))
        # No sample is being fetched.
        Current.words = None


def _numpy_random() -> ModuleType | None:
    try:
        import numpy.random
    except ImportError:
        return None
    return numpy.random


def _received(device: str, state: list[int]) -> torch.Generator:
    generator = torch.Generator(device)
    generator.set_state(torch.tensor(state, dtype=torch.uint8))
    return generator


# torch sends generators through shared memory that a spawned worker fails to open (2.13): no dataset could hold one.
ForkingPickler.register(torch.Generator, lambda one: (_received, (str(one.device), one.get_state().tolist())))


class Current:
    """The seeds from which generators were last started, while a sample or batch is fetched; else None."""

    words: ClassVar[Words | None] = None


def sample_generator(library: str = "torch") -> object:
    """Return the generator of the sample that is being fetched, for code that should not draw from a global one.

    Its numbers depend only on seed, epoch, index and repeat of the sample, not on draws from global generators. Called
    again for the same sample, it returns the same generator, which continues. While a batch is collated, the generator
    is that of the batch.

    Args:
        library: `torch` for a `torch.Generator` on the CPU, `numpy` for a `numpy.random.Generator`, `python` for a
            `random.Random`.

    Raises:
        UsageError: no sample is being fetched through samebits, or there is no such library, or it is not installed.
    """
    if library not in _MAKERS:
        raise UsageError(f"library must be one of {', '.join(_MAKERS)}, got {library!r}")
    words = Current.words
    if words is None:
        raise UsageError(
            "sample_generator() was called while no sample is being fetched",
            "fetch through samebits.data.DataLoader, or through samebits.data.fetch(dataset, index)",
        )
    if library not in words.made:
        words.made[library] = _MAKERS[library](words.of_held(f"sample_generator {library}"))
    return words.made[library]


def _numpy_generator(word: int) -> object:
    numpy_random = _numpy_random()
    if numpy_random is None:
        raise UsageError("NumPy is not installed", "ask for torch or python")
    return numpy_random.Generator(numpy_random.PCG64(word))


_MAKERS: dict[str, Callable[[int], object]] = {
    "torch": lambda word: torch.Generator().manual_seed(word & 0xFFFFFFFF),
    "numpy": _numpy_generator,
    "python": random.Random,
}
