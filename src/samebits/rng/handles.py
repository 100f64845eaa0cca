"""The generators of a process, and the operations on any generator: seed it, read its state, restore its state.

torch and NumPy are taken from `sys.modules`, never imported: a library that is not loaded has no generator yet.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple

from samebits.accelerators.devices import modules

# The function that restores a generator, and the state to restore.
States = list[tuple[Callable[[object], object], object]]

_ALL = (1 << 128) - 1
_GOLDEN = 0x9E3779B97F4A7C15F39CC0605CEDC835
# torch's CPU generator uses only so many bits of a seed (`at::CPUGeneratorImpl`), accelerators' take a signed number.
CPU_SEED_BITS, ACCELERATOR_SEED_BITS = 32, 63


class Handle(NamedTuple):
    """The operations on one generator.

    Attributes:
        start: seeds it with a number of up to 128 bits, of which it uses as many as it can.
        state: returns its state.
        restore: sets a state that `state` returned.
    """

    start: Callable[[int], object]
    state: Callable[[], object]
    restore: Callable[[Any], object]


def handle_of(generator: object) -> Handle:
    """Return the handle of a `random.Random`, `torch.Generator`, or NumPy `RandomState`, `Generator` or bit generator.

    Python's module `random` and NumPy's `numpy.random` stand for their global generators.
    """
    if generator is random or isinstance(generator, random.Random):
        return Handle(generator.seed, generator.getstate, generator.setstate)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(generator, torch.Generator):
        mask = (1 << (CPU_SEED_BITS if generator.device.type == "cpu" else ACCELERATOR_SEED_BITS)) - 1
        return Handle(lambda word: generator.manual_seed(word & mask), generator.get_state, generator.set_state)
    numpy_random = sys.modules["numpy.random"]
    if generator is numpy_random or isinstance(generator, numpy_random.RandomState):
        return _of_legacy(numpy_random, generator)
    return _of_bit_generator(generator.bit_generator if isinstance(generator, numpy_random.Generator) else generator)


def process_generators() -> dict[str, Any]:
    """Return name → generator, for the loaded global ones of Python, torch (on each device in use) and NumPy.

    Python's and NumPy's are given as their modules. Names are `python`, `torch`, `numpy`, `torch cuda:0`.
    """
    torch, numpy_random = sys.modules.get("torch"), sys.modules.get("numpy.random")
    generators: dict[str, Any] = {"python": random}
    if torch is not None:
        generators["torch"] = torch.default_generator
    if numpy_random is not None and hasattr(numpy_random, "get_state"):
        generators["numpy"] = numpy_random
    accelerated = {} if torch is None else accelerator_generators(torch)
    return generators | {f"torch {device}": generator for device, generator in accelerated.items()}


def accelerator_generators(torch: ModuleType) -> dict[str, Any]:
    """Return device (`cuda:0`) → its default generator, for every accelerator in use; this starts no other one."""
    generators = {
        f"{kind}:{index}": generator
        for kind, module in modules().items()
        if module.is_initialized()
        for index, generator in enumerate(module.default_generators)
    }
    if torch.backends.mps.is_available():
        generators["mps"] = torch.mps._get_default_mps_generator()
    return generators


def torch_states(torch: ModuleType) -> States:
    """Return the states of torch's default generators, on the CPU and on every accelerator in use."""
    return states_of((torch.default_generator, *accelerator_generators(torch).values()))


def states_of(generators: Iterable[object]) -> States:
    """Return the function that restores each generator, and the state it has now."""
    return [(handle.restore, handle.state()) for handle in map(handle_of, generators)]


def restore(states: States) -> None:
    """Restore the state of every generator."""
    for to_state, state in states:
        to_state(state)


def _of_legacy(numpy_random: ModuleType, generator: Any) -> Handle:
    """Return the handle of a `RandomState`, or of the module, whose functions are those of the global one."""
    is_global = generator is numpy_random

    def start(word: int) -> None:
        # The global one is seeded with one number of 32 bits, in 1.6 µs instead of 8.5 for four numbers.
        seed = word & 0xFFFFFFFF if is_global else [word >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
        kind = type((numpy_random.mtrand._rand if is_global else generator)._bit_generator)
        if kind is numpy_random.MT19937:
            generator.seed(seed)
        else:
            # Other kinds take a whole state only; `numpy.random.seed` would keep the Gaussian saved for the next call.
            generator.set_state({**kind(seed).state, "has_gauss": 0, "gauss": 0.0})

    # The whole state: the bit generator's alone leaves out that Gaussian.
    return Handle(start, lambda: generator.get_state(legacy=False), generator.set_state)


def _of_bit_generator(generator: Any) -> Handle:
    kind = type(generator)

    def start(word: int) -> None:
        if kind.__name__ in ("PCG64", "PCG64DXSM"):
            # A tenth of the time that a new generator takes; any state and any odd increment are valid.
            state = {"state": word, "inc": word * _GOLDEN & _ALL | 1}
            generator.state = {"bit_generator": kind.__name__, "state": state, "has_uint32": 0, "uinteger": 0}
        else:
            generator.state = kind(word).state

    return Handle(start, lambda: generator.state, lambda state: setattr(generator, "state", state))
