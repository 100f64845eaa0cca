"""The states of all generators, the process's own and those that objects hold, as plain data and back.

Names are those of `process_generators` and, for generators that objects hold, the paths to them (`loader.dataset.rng`).
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable
from typing import Any

import torch

from samebits.accelerators.devices import initialize_device, modules
from samebits.rng.handles import handle_of, process_generators
from samebits.rng.packing import bytes_of, leaves, pack, unpack
from samebits.rng.search import find_generators, is_seedable


class UnfitStateError(ValueError):
    """A state that does not fit the generator to which it was to be restored."""


def every_generator(*roots: tuple[str, object], beside: tuple[object, ...] = ()) -> dict[str, Any]:
    """Return name → generator, for the process's own generators and those that objects hold.

    Args:
        roots: name and object.
        beside: objects that are not searched.
    """
    of_process = process_generators()
    held_globals = [random.__dict__["_inst"], *of_process.values()]
    if "numpy" in of_process:
        held_globals.append(of_process["numpy"].mtrand._rand)
    held = find_generators(*roots, beside=(*held_globals, *beside))
    return of_process | {way: generator for way, generator in held if is_seedable(generator)}


def wake_owner(name: str) -> None:
    """Import NumPy, or start to use a device if it is available, whichever a generator of the process belongs to."""
    kind = name.removeprefix("torch ").partition(":")[0]
    if name == "numpy":
        import numpy.random  # noqa: F401
    elif kind in (by_kind := modules()) and by_kind[kind].is_available():
        initialize_device(by_kind[kind])


def packed_state(generator: object) -> dict[str, Any]:
    """Return the state of a generator as plain data."""
    state: Any = handle_of(generator).state()
    if isinstance(state, torch.Tensor):
        return {"kind": "torch", "state": state}
    if isinstance(state, tuple):
        version, words, gauss = state
        packed = torch.frombuffer(bytearray(array("I", words).tobytes()), dtype=torch.uint8)
        return {"kind": f"python {version}", "state": packed, "gauss": gauss}
    return {"kind": f"numpy {state['bit_generator']}", "state": pack(state)}


def restoring(generator: object, packed: Any) -> Callable[[], object]:
    """Return a function that restores a state of `packed_state` to a generator; nothing is restored before its call.

    Raises:
        UnfitStateError: the data is no generator state, or one of another kind or size.
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
