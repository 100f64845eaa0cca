"""The state of every global generator, as digests: it explains a divergence, and is not compared."""

from __future__ import annotations

import random
import sys
from types import ModuleType

import torch

from samebits.bits.digest import unobserved
from samebits.bits.digest.raw import memory, raw_digest
from samebits.rng.handles import accelerator_generators

# 624 words of 4 bytes and the position among them.
_MT19937_BYTES = 2500


def generator_states() -> dict[str, int]:
    """Name → digest of the state, for the generators that are loaded; draws nothing."""
    states = {"python": _python_state(), "numpy": _numpy_state(), "torch": digest_of_state(torch.default_generator)}
    found = {name: digest for name, digest in states.items() if digest is not None}
    return found | {f"torch {device}": digest_of_state(one) for device, one in accelerator_generators(torch).items()}


def _python_state() -> int:
    # The hash of a tuple of numbers does not depend on the hash seed, and is quicker than making bytes of it.
    _, words, cached = random.getstate()
    return hash((words, 0.0 if cached is None else cached)) & (2**64 - 1)


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
