"""Digests of the states of all global generators: they explain a divergence, and are not compared."""

from __future__ import annotations

import random
import sys
from array import array

import torch

from samebits.accelerators.devices import initialize_device, modules
from samebits.bits.digest.unseen import unobserved
from samebits.bits.raw import memory, raw_digest
from samebits.rng.handles import process_generators

# 624 words of 4 bytes and the position among them.
_MT19937_BYTES = 2500


def generator_states() -> dict[str, int]:
    """Return name → digest of the state, for the loaded generators; this draws nothing."""
    return {name: _digest_of(generator) for name, generator in process_generators().items()}


def digest_of_state(generator: torch.Generator) -> int:
    """Return the digest of a torch generator's state; CUDA's is on the host (CUDAGeneratorImpl::get_state): no wait."""
    with unobserved():
        state = generator.get_state()
        return raw_digest(memory(state.data_ptr(), state.nbytes))


def default_generator(device: torch.device) -> torch.Generator | None:
    """Return the generator that draws on a device where a call names none; None if it is unknown."""
    if device.type == "cpu":
        return torch.default_generator
    if device.type == "mps":
        return torch.mps._get_default_mps_generator()
    module = modules().get(device.type)
    if module is None:
        return None
    # The very first operation on the device may be a draw.
    initialize_device(module)
    index = module.current_device() if device.index is None else device.index
    generator: torch.Generator = module.default_generators[index]
    return generator


def _digest_of(generator: object) -> int:
    if isinstance(generator, torch.Generator):
        return digest_of_state(generator)
    if generator is random:
        _, words, cached = random.getstate()
        return raw_digest(array("I", [words[-1], *words[:-1]]).tobytes()) ^ hash(cached or 0.0) & 2**64 - 1
    bit_generator = sys.modules["numpy.random.mtrand"]._rand._bit_generator
    if type(bit_generator).__name__ == "MT19937":
        # `state` takes 60 µs for a dictionary and a copy; in memory the same words are followed by the position.
        return raw_digest(memory(bit_generator.ctypes.state_address, _MT19937_BYTES))
    return raw_digest(repr(bit_generator.state["state"]).encode())
