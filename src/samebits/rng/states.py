"""The state of every generator: the process's own and those that objects hold, as plain data and back.

Names are those of `process_generators` and, for generators that objects hold, the ways to them (`loader.dataset.rng`).
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from typing import Any

import torch

from samebits.accelerators.devices import modules, wake
from samebits.rng.handles import handle_of, process_generators
from samebits.rng.packing import bytes_of, leaves, pack, unpack
from samebits.rng.search import find_generators, is_keyable


class UnfitStateError(ValueError):
    """A state that is not one of the generator it was to be given to."""


def every_generator(*roots: tuple[str, object], beside: tuple[object, ...] = ()) -> dict[str, Any]:
    """Name → generator, of the process's own and of those that objects hold.

    Args:
        roots: name and object.
        beside: objects that are not looked into.
    """
    own = process_generators()
    held_globals = [random.__dict__["_inst"], *own.values()]
    if "numpy" in own:
        held_globals.append(own["numpy"].mtrand._rand)
    held = find_generators(*roots, beside=(*held_globals, *beside))
    return own | {way: one for way, one in held if is_keyable(one)}


def wake_owner(name: str) -> None:
    """Begin to use what a generator of the process belongs to, where it is there: NumPy, or a device."""
    kind = name.removeprefix("torch ").partition(":")[0]
    if name == "numpy":
        import numpy.random  # noqa: F401
    elif kind in (found := modules()) and found[kind].is_available():
        wake(found[kind])


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
    handle, live = handle_of(generator), packed_state(generator)
    state = _unpacked(packed)
    if packed["kind"] != live["kind"]:
        raise UnfitStateError(f"the state is that of a {packed['kind']} generator, here is a {live['kind']} one")
    before, after = _sizes(packed), _sizes(live)
    if before != after:
        raise UnfitStateError(f"the state has {before} bytes, one of this generator has {after}")
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
        raise UnfitStateError(f"this is not a generator state ({type(error).__name__}: {error})") from error


def _sizes(packed: dict[str, Any]) -> list[int]:
    return [value.nbytes for _, value in leaves(packed) if isinstance(value, torch.Tensor)]
