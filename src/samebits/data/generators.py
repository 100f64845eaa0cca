"""The generators that a sample may draw from: the libraries' global ones and those that objects hold.

All of them can be put aside, started from the key of a sample, and brought back exactly.
"""

from __future__ import annotations

import hashlib
import pickle
import random
import sys
from collections.abc import Callable, Iterable
from multiprocessing.reduction import ForkingPickler
from typing import Any, ClassVar, NamedTuple

import torch

from samebits.base.errors import UsageError
from samebits.data.held import find_generators, is_keyable

States = list[tuple[Callable[[Any], Any], Any]]


class Words(NamedTuple):
    """What each library starts from for one key; no two libraries share any of it.

    Attributes:
        python: 128 bits.
        numpy: 32 bits, which is what `numpy.random.seed` takes as one number, in 1.6 µs instead of 8.5 for four.
        torch: 32 bits; torch's CPU generator looks at no more (`at::CPUGeneratorImpl`).
        accelerator: 64 bits.
        rest: what the held generators' own words are derived from.
    """

    python: int
    numpy: int
    torch: int
    accelerator: int
    rest: bytes

    @classmethod
    def of(cls, key: bytes) -> Words:
        """Cut from a key of 64 bytes."""
        number = int.from_bytes
        return cls(
            number(key[:16], "little"),
            number(key[16:20], "little"),
            number(key[20:24], "little"),
            number(key[24:32], "little") >> 1,
            key[32:],
        )

    def of_held(self, path: str) -> int:
        """128 bits for a generator that an object holds."""
        raw = hashlib.blake2b(path.encode(errors="surrogatepass"), key=self.rest, digest_size=16).digest()
        return int.from_bytes(raw, "little")


class Generators:
    """Every generator that a call may draw from.

    Args:
        roots: name and object; what they hold is found now.
        only_torch: leave Python's and NumPy's global generators alone.
        beside: objects that are not looked into.
    """

    def __init__(self, *roots: tuple[str, Any], only_torch: bool = False, beside: Iterable[Any] = ()) -> None:
        # NumPy seeds itself when it is imported; a dataset that does so in mid-sample must find it keyed already.
        self._numpy = None if only_torch else _numpy_random()
        self._python = None if only_torch else random
        found = find_generators(*roots, beside=beside)
        self.paths = {path: id(one) for path, one in found}
        self.held = [(path, *_handles(one)) for path, one in found if is_keyable(one)]

    def states(self) -> States:
        """Where each of them stands, and how to bring it back there."""
        states: States = [(torch.default_generator.set_state, torch.default_generator.get_state())]
        if self._python is not None:
            states.append((self._python.setstate, self._python.getstate()))
        if self._numpy is not None:
            # The whole state: the bit generator's alone leaves out the Gaussian that NumPy keeps for the next call.
            states.append((self._numpy.set_state, self._numpy.get_state(legacy=False)))
        states += [(generator.set_state, generator.get_state()) for generator in accelerator_generators()]
        return states + [(restore, state()) for _, _, state, restore in self.held]

    def frozen(self) -> list[Any]:
        """Where each of them stands, as something that can be compared."""
        # A tensor's own pickle holds more than its values.
        plain = [state.tolist() if isinstance(state, torch.Tensor) else state for _, state in self.states()]
        return [pickle.dumps(state) for state in plain]

    def start(self, key: bytes) -> None:
        """Start all of them from the key of whatever comes next."""
        words = Words.of(key)
        torch.default_generator.manual_seed(words.torch)
        if self._python is not None:
            self._python.seed(words.python)
        if self._numpy is not None:
            _start_numpy(self._numpy, words.numpy)
        for generator in accelerator_generators():
            generator.manual_seed(words.accelerator)
        for path, start, _, _ in self.held:
            start(words.of_held(path))
        Current.set(words)


def bring_back(states: States) -> None:
    """Every generator to where it stood."""
    for restore, state in states:
        restore(state)


def accelerator_generators() -> list[Any]:
    """The default generators of every accelerator in use; one that is not in use is not woken."""
    found: list[Any] = []
    for module in (torch.cuda, torch.xpu):
        if module.is_initialized():
            found += module.default_generators
    return found


def _numpy_random() -> Any:
    try:
        import numpy.random
    except ImportError:
        return None
    return numpy.random


def _start_numpy(numpy_random: Any, word: int) -> None:
    try:
        numpy_random.seed(word)
    except TypeError:
        # The program put another bit generator there, which only takes a whole state.
        generator = numpy_random.get_bit_generator()
        generator.state = type(generator)(word).state


Handles = tuple[Callable[[int], Any], Callable[[], Any], Callable[[Any], Any]]


def _handles(generator: Any) -> Handles:
    """How to start a generator from a number, ask where it stands, and bring it back there."""
    if isinstance(generator, random.Random):
        return generator.seed, generator.getstate, generator.setstate
    if isinstance(generator, torch.Generator):
        bits = 0xFFFFFFFF if generator.device.type == "cpu" else (1 << 63) - 1
        return lambda word: generator.manual_seed(word & bits), generator.get_state, generator.set_state
    numpy_random: Any = sys.modules["numpy.random"]
    if isinstance(generator, numpy_random.RandomState):
        return _of_random_state(generator)
    bits_of = generator.bit_generator if isinstance(generator, numpy_random.Generator) else generator
    return _of_bit_generator(bits_of)


def _of_random_state(generator: Any) -> Handles:
    def start(word: int) -> None:
        try:
            generator.seed([word >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)])
        except TypeError:
            # Only the Mersenne Twister can be seeded where it stands.
            kind = getattr(sys.modules["numpy.random"], generator.get_state(legacy=False)["bit_generator"])
            generator.set_state({**kind(word).state, "has_gauss": 0, "gauss": 0.0})

    return start, lambda: generator.get_state(legacy=False), generator.set_state


def _of_bit_generator(generator: Any) -> Handles:
    kind = type(generator)

    def start(word: int) -> None:
        if kind.__name__ in ("PCG64", "PCG64DXSM"):
            # A tenth of the time that a new one takes; any state will do, and any odd increment.
            state = {"state": word, "inc": word * _GOLDEN & _ALL | 1}
            generator.state = {"bit_generator": kind.__name__, "state": state, "has_uint32": 0, "uinteger": 0}
        else:
            generator.state = kind(word).state

    def bring(state: Any) -> None:
        generator.state = state

    return start, lambda: generator.state, bring


def _sent(generator: torch.Generator) -> tuple[Callable[..., Any], tuple[str, list[int]]]:
    return _received, (str(generator.device), generator.get_state().tolist())


def _received(device: str, state: list[int]) -> torch.Generator:
    generator = torch.Generator(device)
    generator.set_state(torch.tensor(state, dtype=torch.uint8))
    return generator


# torch sends the state through shared memory, which a spawned worker fails to open (2.13): no dataset could hold one.
ForkingPickler.register(torch.Generator, _sent)

_ALL = (1 << 128) - 1
_GOLDEN = 0x9E3779B97F4A7C15F39CC0605CEDC835


class Current:
    """The key that generators were started from last, while a sample is fetched; and the explicit ones made from it."""

    words: ClassVar[Words | None] = None
    made: ClassVar[dict[str, Any]] = {}

    @classmethod
    def set(cls, words: Words | None) -> None:
        """Another sample begins, or none."""
        cls.words = words
        cls.made = {}


def sample_generator(library: str = "torch") -> Any:
    """The generator of the sample that is being fetched: for code that would rather not draw from a global one.

    Its numbers depend on seed, epoch, index and repeat of the sample, and on nothing else; neither do they depend on
    what was drawn from global generators. Asked twice within one sample, it is the same generator and goes on. While a
    batch is collated it is the batch's.

    Args:
        library: `torch` for a `torch.Generator` on the CPU, `numpy` for a `numpy.random.Generator`, `python` for a
            `random.Random`.

    Raises:
        UsageError: no sample is being fetched by a loader of samebits, or there is no such library.
    """
    if library not in _MAKERS:
        raise UsageError(f"library must be one of {', '.join(_MAKERS)}, got {library!r}")
    if Current.words is None:
        raise UsageError(
            "sample_generator() was called while no sample is being fetched",
            "fetch through samebits.data.DataLoader, or through samebits.data.fetch(dataset, index)",
        )
    if library not in Current.made:
        Current.made[library] = _MAKERS[library](Current.words.of_held(f"sample_generator {library}"))
    return Current.made[library]


def _numpy_generator(word: int) -> Any:
    numpy_random = _numpy_random()
    if numpy_random is None:
        raise UsageError("NumPy is not installed", "ask for torch or python")
    return numpy_random.Generator(numpy_random.PCG64(word))


_MAKERS: dict[str, Callable[[int], Any]] = {
    "torch": lambda word: torch.Generator().manual_seed(word & 0xFFFFFFFF),
    "numpy": _numpy_generator,
    "python": random.Random,
}
