"""The state of every global generator, as digests: it explains a divergence, and is not compared."""

from __future__ import annotations

import ctypes
import random
import sys

import torch

from samebits.recording.digest import unobserved
from samebits.recording.digest.raw import raw_digest


def generator_states() -> dict[str, int]:
    """Name → digest of the state, for the generators that are loaded; draws nothing."""
    states = {"python": _python_state(), "numpy": _numpy_state(), "torch": digest_of_state(torch.default_generator)}
    return {name: digest for name, digest in states.items() if digest is not None}


def _python_state() -> int:
    # The hash of a tuple of numbers does not depend on the hash seed, and is quicker than making bytes of it.
    _, words, cached = random.getstate()
    return hash((words, 0.0 if cached is None else cached)) & (2**64 - 1)


def _numpy_state() -> int | None:
    mtrand = sys.modules.get("numpy.random.mtrand")
    if mtrand is None:
        return None
    state = mtrand._rand._bit_generator.state["state"]
    key = state.get("key")
    return raw_digest(repr(state).encode() if key is None else key.tobytes() + b"%d" % state["pos"])


def digest_of_state(generator: torch.Generator) -> int:
    """Of any torch generator; an accelerator's lies on the host, so nothing is waited for."""
    with unobserved():
        state = generator.get_state()
        return raw_digest(ctypes.string_at(state.data_ptr(), state.nbytes))
