"""nccl-algorithms: in which order NCCL adds what ranks send one another."""

from __future__ import annotations

import os
import sys

from samebits.factors.base import Observation
from samebits.factors.context import FactorContext
from samebits.factors.switches import VariablesFactor

PINNED = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_NCHANNELS": "1"}
VARIED = {"NCCL_ALGO": "Tree", "NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_NCHANNELS": "2"}


class NcclAlgorithms(VariablesFactor):
    """NCCL chooses ring, tree or NVLink SHARP, a protocol, and a number of channels by topology and message size.

    Each adds the ranks' gradients in another order. The choice is the same on the same machine as a rule, and another
    one with other links, another number of GPUs, or another release of NCCL; so it is pinned only when asked for, for
    bits that travel. Pinned: one ring, one channel, the Simple protocol, no NVLS, which costs bandwidth; what the user
    has set is kept. The variables are described in NCCL's user guide under "Environment Variables", which puts those
    that choose algorithms among the ones meant for debugging. A communicator reads them when it is made.
    Reasoned, not run: that they reach every rank is tested, what they do to bits is not.
    """

    name = "nccl-algorithms"
    summary = "NCCL chooses by links and sizes in which order it adds the gradients of the ranks"
    explanation = "the ranks' gradients were added in another order"
    too_late = "the first collective over NCCL"
    fix = "set NCCL_ALGO, NCCL_PROTO, NCCL_NVLS_ENABLE and NCCL_MAX_NCHANNELS before the ranks start"
    pinned_by_default = False
    varies_between_runs = False
    needs = ("cuda", "ranks")
    priced = ("pinned",)
    pinned = PINNED
    varied = VARIED

    def is_late(self) -> bool:
        distributed = sys.modules.get("torch.distributed")
        return bool(distributed is not None and distributed.is_available() and distributed.is_initialized())

    def observe(self, context: FactorContext | None = None) -> Observation:
        given = {name: os.environ[name] for name in PINNED if os.environ.get(name)}
        value = ", ".join(f"{name}={own}" for name, own in given.items()) or "chosen by NCCL"
        held, late = len(given) == len(PINNED), self.is_late()
        reason = "ranks were connected before they were set" if late and not held else ""
        return Observation(value, held, can_pin=not late, reason=reason)
