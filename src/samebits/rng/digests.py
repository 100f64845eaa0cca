"""The state of every global generator, as digests: it explains a divergence, and is not compared."""

from __future__ import annotations

import random
import sys
from _random import Random as _Random
from array import array
from functools import cache
from types import ModuleType
from typing import Any

import torch

from samebits.bits.digest import unobserved
from samebits.bits.digest.raw import memory, raw_digest
from samebits.rng.handles import accelerator_generators

# 624 words of 4 bytes and the position among them.
_MT19937_BYTES = 2500
_MASK = 2**64 - 1


def generator_states() -> dict[str, int]:
    """Name → digest of the state, for the generators that are loaded; draws nothing."""
    states = {"python": _python_state(), "numpy": _numpy_state(), "torch": digest_of_state(torch.default_generator)}
    found = {name: digest for name, digest in states.items() if digest is not None}
    return found | {f"torch {device}": digest_of_state(one) for device, one in accelerator_generators(torch).items()}


def _python_state() -> int:
    generator: Any = vars(random)["_inst"]
    cached = generator.gauss_next or 0.0
    if _lies_behind_its_head():
        # `getstate` makes 625 numbers, 15 µs; in memory the position and the words lie side by side (`RandomObject`).
        return raw_digest(memory(id(generator) + object.__basicsize__, _MT19937_BYTES)) ^ hash(cached) & _MASK
    _, words, _ = generator.getstate()
    return raw_digest(_packed(words)) ^ hash(cached) & _MASK


@cache
def _lies_behind_its_head() -> bool:
    """Whether this interpreter keeps the state of a `random.Random` where CPython does: looked at, not supposed."""
    probe = random.Random(0)
    if sys.implementation.name != "cpython" or type(vars(random)["_inst"]) is not random.Random:
        return False
    if _Random.__basicsize__ < object.__basicsize__ + _MT19937_BYTES:
        return False
    for _ in range(3):
        probe.random()
        here = bytes(memory(id(probe) + object.__basicsize__, _MT19937_BYTES))
        if here != _packed(probe.getstate()[1]):
            return False
    return True


def _packed(words: tuple[int, ...]) -> bytes:
    """The words and the position, in the order in which they lie in memory: the position first."""
    *state, position = words
    return array("I", [position, *state]).tobytes()


def _numpy_state() -> int | None:
    mtrand = sys.modules.get("numpy.random.mtrand")
    if mtrand is None:
        return None
    generator = mtrand._rand._bit_generator
    if type(generator) is getattr(mtrand, "_MT19937", None):
        # `state` makes a dictionary and a copy, 60 µs; in memory the same words and the position lie side by side.
        return raw_digest(memory(generator.ctypes.state_address, _MT19937_BYTES))
    return raw_digest(repr(generator.state["state"]).encode())


def digest_of_state(generator: torch.Generator) -> int:
    """Of any torch generator; CUDA's lies on the host (CUDAGeneratorImpl::get_state), so nothing is waited for."""
    with unobserved():
        state = generator.get_state()
        return raw_digest(memory(state.data_ptr(), state.nbytes))


def default_generator(device: torch.device) -> torch.Generator | None:
    """The one that draws on a device where none is given; None if that is unknown."""
    if device.type == "cpu":
        return torch.default_generator
    if device.type == "mps":
        return torch.mps._get_default_mps_generator()
    if device.type not in ("cuda", "xpu"):
        return None
    module: ModuleType = getattr(torch, device.type)
    # The very first operation there may be a draw.
    module.init()
    generator: torch.Generator = module.default_generators[
        module.current_device() if device.index is None else device.index
    ]
    return generator
