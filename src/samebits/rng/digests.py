"""The state of every global generator, as digests: it explains a divergence, and is not compared."""

from __future__ import annotations

import random
import sys
from array import array

import torch

from samebits.accelerators.devices import modules, wake
from samebits.bits.digest.unseen import unobserved
from samebits.bits.raw import memory, raw_digest
from samebits.rng.handles import process_generators

# 624 words of 4 bytes and the position among them.
_MT19937_BYTES = 2500


def generator_states() -> dict[str, int]:
    """Name → digest of the state, for the generators that are loaded; draws nothing."""
    return {name: _digest_of(one) for name, one in process_generators().items()}


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
    module = modules().get(device.type)
    if module is None:
        return None
    # The very first operation there may be a draw.
    wake(module)
    index = module.current_device() if device.index is None else device.index
    generator: torch.Generator = module.default_generators[index]
    return generator


def _digest_of(generator: object) -> int:
    if isinstance(generator, torch.Generator):
        return digest_of_state(generator)
    if generator is random:
        _, words, cached = random.getstate()
        return raw_digest(array("I", [words[-1], *words[:-1]]).tobytes()) ^ hash(cached or 0.0) & 2**64 - 1
    numpys = sys.modules["numpy.random.mtrand"]._rand._bit_generator
    if type(numpys).__name__ == "MT19937":
        # `state` makes a dictionary and a copy, 60 µs; in memory the same words and the position lie side by side.
        return raw_digest(memory(numpys.ctypes.state_address, _MT19937_BYTES))
    return raw_digest(repr(numpys.state["state"]).encode())
