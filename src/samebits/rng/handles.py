"""The generators of a process, and what can be done with any: start it from a number, ask for its state, restore it.

torch and NumPy are taken from `sys.modules`, never imported: whatever is not loaded has no generator yet.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, NamedTuple

from samebits.accelerators.devices import modules

# How to restore a generator, and the state it is to have.
States = list[tuple[Callable[[object], object], object]]

_ALL = (1 << 128) - 1
_GOLDEN = 0x9E3779B97F4A7C15F39CC0605CEDC835
# torch's CPU generator looks at no more of a seed (`at::CPUGeneratorImpl`); those of accelerators take a signed number.
CPU_SEED_BITS, ACCELERATOR_SEED_BITS = 32, 63


class Handle(NamedTuple):
    """What can be done with one generator.

    Attributes:
        start: begin its stream at a number of up to 128 bits; as many of them count as it has a use for.
        state: ask for its state.
        restore: give it a state that `state` returned.
    """

    start: Callable[[int], object]
    state: Callable[[], object]
    restore: Callable[[Any], object]


def handle_of(generator: object) -> Handle:
    """Of a `random.Random`, a `torch.Generator`, NumPy's `RandomState`, `Generator` or bit generator.

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
    """Name → generator, of the global ones of Python, torch (on each device in use) and NumPy that are loaded.

    Python's and NumPy's are their modules. Names are `python`, `torch`, `numpy`, `torch cuda:0`.
    """
    torch, numpy_random = sys.modules.get("torch"), sys.modules.get("numpy.random")
    found: dict[str, Any] = {"python": random}
    if torch is not None:
        found["torch"] = torch.default_generator
    if numpy_random is not None and hasattr(numpy_random, "get_state"):
        found["numpy"] = numpy_random
    accelerated = {} if torch is None else accelerator_generators(torch)
    return found | {f"torch {device}": one for device, one in accelerated.items()}


def accelerator_generators(torch: ModuleType) -> dict[str, Any]:
    """Device (`cuda:0`) → its default generator, of every accelerator in use; one that is not in use is not woken."""
    found = {
        f"{kind}:{index}": generator
        for kind, module in modules().items()
        if module.is_initialized()
        for index, generator in enumerate(module.default_generators)
    }
    if torch.backends.mps.is_available():
        found["mps"] = torch.mps._get_default_mps_generator()
    return found


def torch_states(torch: ModuleType) -> States:
    """The states of torch's default generators, on the CPU and on every accelerator in use."""
    return states_of((torch.default_generator, *accelerator_generators(torch).values()))


def states_of(generators: Iterable[object]) -> States:
    """How to restore each of them, and the state it has now."""
    return [(handle.restore, handle.state()) for handle in map(handle_of, generators)]


def restore(states: States) -> None:
    """Every generator to the state it had."""
    for to_state, state in states:
        to_state(state)


def _of_legacy(numpy_random: ModuleType, generator: Any) -> Handle:
    """The handle of a `RandomState`, or of the module whose functions are those of the global one."""
    is_global = generator is numpy_random

    def start(word: int) -> None:
        # The global one takes 32 bits as one number, in 1.6 µs instead of 8.5 for four.
        seed = word & 0xFFFFFFFF if is_global else [word >> shift & 0xFFFFFFFF for shift in (0, 32, 64, 96)]
        kind = type((numpy_random.mtrand._rand if is_global else generator)._bit_generator)
        if kind is numpy_random.MT19937:
            generator.seed(seed)
        else:
            # It takes a whole state only, and `numpy.random.seed` would leave the Gaussian kept for the next call.
            generator.set_state({**kind(seed).state, "has_gauss": 0, "gauss": 0.0})

    # The whole state: the bit generator's alone leaves out that Gaussian.
    return Handle(start, lambda: generator.get_state(legacy=False), generator.set_state)


def _of_bit_generator(generator: Any) -> Handle:
    kind = type(generator)

    def start(word: int) -> None:
        if kind.__name__ in ("PCG64", "PCG64DXSM"):
            # A tenth of the time that a new one takes; any state will do, and any odd increment.
            state = {"state": word, "inc": word * _GOLDEN & _ALL | 1}
            generator.state = {"bit_generator": kind.__name__, "state": state, "has_uint32": 0, "uinteger": 0}
        else:
            generator.state = kind(word).state

    return Handle(start, lambda: generator.state, lambda state: setattr(generator, "state", state))
