"""The state of every generator: the process's own and those that objects hold, as plain data and back.

Names are those of the digests in a recording (`python`, `numpy`, `torch`, `torch cuda:0`) and, for generators that
objects hold, the ways to them (`loader.dataset.rng`).
"""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Callable
from typing import Any

import torch

from samebits.rng.handles import States, accelerator_generators, accelerators, handle_of
from samebits.rng.held import KnownData, find_generators, is_keyable
from samebits.rng.packing import bytes_of, leaves, pack, unpack


class UnfitStateError(ValueError):
    """A state that is not one of the generator it was to be given to."""


def process_generators() -> dict[str, Any]:
    """Name → generator, of the global ones of Python, NumPy (if it is loaded), and torch on each device in use."""
    numpy_random = sys.modules.get("numpy.random")
    found = {"python": random, "torch": torch.default_generator}
    if numpy_random is not None and hasattr(numpy_random, "get_state"):
        found["numpy"] = numpy_random
    return found | {f"torch {device}": one for device, one in accelerator_generators(torch).items()}


def every_generator(
    *roots: tuple[str, object], beside: tuple[object, ...] = (), data: KnownData | None = None
) -> dict[str, Any]:
    """Name → generator, of the process's own and of those that objects hold.

    Args:
        roots: name and object.
        beside: objects that are not looked into.
        data: as for `find_generators`.
    """
    own = process_generators()
    numpy_random: Any = own.get("numpy")
    held_globals = [random.__dict__["_inst"], *own.values()]
    if numpy_random is not None:
        held_globals.append(numpy_random.mtrand._rand)
    held = find_generators(*roots, beside=(*held_globals, *beside), data=data)
    return own | {way: one for way, one in held if is_keyable(one)}


def states_of(generators: dict[str, Any]) -> States:
    """How to restore each of them, and the state it has now."""
    handles = [handle_of(one) for one in generators.values()]
    return [(handle.restore, handle.state()) for handle in handles]


def wake_accelerators(name: str) -> None:
    """Begin to use the device of a generator's name (`torch cuda:0`), where there is one."""
    kind = name.removeprefix("torch ").partition(":")[0]
    for module in accelerators(torch):
        if module.__name__ == f"torch.{kind}" and module.is_available():
            module.init()


def packed_state(generator: object) -> dict[str, Any]:
    """The state of one generator, as plain data."""
    state: Any = handle_of(generator).state()
    if isinstance(state, torch.Tensor):
        return {"kind": "torch", "state": state}
    if isinstance(state, tuple):
        version, words, gauss = state
        packed = torch.frombuffer(bytearray(array("I", words).tobytes()), dtype=torch.uint8)
        return {"kind": f"python {version}", "state": packed, "gauss": gauss}
    return {"kind": f"numpy {state['bit_generator']}", "state": pack(state)}


def restoring(generator: object, packed: Any) -> Callable[[], object]:
    """What gives a generator a state that `packed_state` returned; calling this restores nothing yet.

    Raises:
        UnfitStateError: the state is of a generator of another kind.
    """
    handle = handle_of(generator)
    state = _unpacked(packed)
    _check_kind(packed, packed_state(generator))
    return lambda: handle.restore(state)


def _unpacked(packed: Any) -> Any:
    try:
        kind, state = packed["kind"], packed["state"]
        if kind == "torch":
            return state.cpu()
        if kind.startswith("python "):
            return int(kind.split()[1]), tuple(array("I", bytes_of(state))), packed["gauss"]
        return unpack(state)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnfitStateError(f"this is no state of a generator ({type(error).__name__}: {error})") from error


def _check_kind(saved: dict[str, Any], live: dict[str, Any]) -> None:
    if saved["kind"] != live["kind"]:
        raise UnfitStateError(f"the state is that of a {saved['kind']} generator, here is a {live['kind']} one")
    before, after = _sizes(saved), _sizes(live)
    if before != after:
        raise UnfitStateError(f"the state has {before} bytes, one of this generator has {after}")


def _sizes(packed: dict[str, Any]) -> list[int]:
    return [value.nbytes for _, value in leaves(packed) if isinstance(value, torch.Tensor)]
