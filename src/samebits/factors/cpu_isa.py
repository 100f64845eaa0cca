"""cpu-isa: which vector instructions the CPU kernels use."""

from __future__ import annotations

import os
import sys

from samebits.factors.base import Observation
from samebits.factors.context import FactorContext
from samebits.factors.switches import VariablesFactor

PINNED = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "AVX2"}
VARIED = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}


class CpuIsa(VariablesFactor):
    """torch, MKL and oneDNN choose their kernels by the CPU they find, and wider vectors add in another order.

    It never changes between two runs on one machine, and holding it down to what most machines have costs speed; so
    it is pinned only when asked for, for bits that travel. It narrows the difference between machines, it does not
    remove it: 54 of 812 measured outputs still differed under the best combination (MKL on AMD honours only
    `MKL_CBWR=COMPATIBLE`). For x86 processors; others do not know these names.
    """

    name = "cpu-isa"
    summary = "CPU kernels are chosen by the processor found (AVX2, AVX-512 …), so bits differ between machines"
    explanation = "another processor takes other kernels"
    too_late = "the import of torch"
    fix = "set ATEN_CPU_CAPABILITY, MKL_CBWR and ONEDNN_MAX_CPU_ISA before Python starts"
    pinned_by_default = False
    varies_between_runs = False
    priced = ("pinned",)
    kernel_variables = tuple(PINNED)
    pinned = PINNED
    varied = VARIED

    def is_late(self) -> bool:
        return "torch" in sys.modules

    def observe(self, context: FactorContext | None = None) -> Observation:
        torch = sys.modules.get("torch")
        is_asked = all(os.environ.get(name) for name in PINNED)
        if torch is None:
            return Observation("torch is not loaded", is_asked)
        capability = torch.backends.cpu.get_cpu_capability()
        # Of the three choices torch reports the one that it made itself; its older versions say NO AVX for the default.
        made = "default" if capability == "NO AVX" else capability.lower()
        held = is_asked and made == os.environ["ATEN_CPU_CAPABILITY"].lower()
        reason = "" if held else "torch was imported before, and chose its kernels then"
        return Observation(capability, held, can_pin=False, reason=reason)
