"""Factors that are environment variables which a library reads once."""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext, Setting

VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
VALID = (":4096:8", ":16:8")
LT, LT_SIZE = "CUBLASLT_WORKSPACE_SIZE", "32768"


class VariablesFactor(Factor):
    """A factor made of environment variables that a library reads once.

    Attributes:
        pinned: variable → the value to pin it to, unless the user has set one.
        varied: variable → its other value.
    """

    scope = "environment"
    pinned: ClassVar[Mapping[str, str]]
    varied: ClassVar[Mapping[str, str]]

    @abstractmethod
    def is_late(self) -> bool:
        """Whether the library has read the variables in this process."""

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        if setting.mode == "pinned":
            return {name: environ.get(name) or value for name, value in self.pinned.items()}
        return dict(self.varied) if setting.mode == "varied" else {}

    def treat(self, context: FactorContext) -> None:
        if context.mode != "pinned" or self.is_late():
            return
        for name, value in self.environment(context.setting, context.seed, os.environ).items():
            if os.environ.get(name) != value:
                context.set_environment(name, value)


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
    kernel_variables = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA")
    pinned: ClassVar = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    varied: ClassVar = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "ONEDNN_MAX_CPU_ISA": "SSE41"}

    def is_late(self) -> bool:
        return "torch" in sys.modules

    def observe(self, context: FactorContext | None = None) -> Observation:
        torch = sys.modules.get("torch")
        is_asked = all(os.environ.get(name) for name in self.pinned)
        if torch is None:
            return Observation("torch is not loaded", is_asked)
        capability = torch.backends.cpu.get_cpu_capability()
        # torch reports its own choice only, not those of MKL and oneDNN; older versions say NO AVX for the default.
        chosen = "default" if capability == "NO AVX" else capability.lower()
        held = is_asked and chosen == os.environ["ATEN_CPU_CAPABILITY"].lower()
        reason = "" if held else "torch was imported before, and chose its kernels then"
        return Observation(capability, held, can_pin=False, reason=reason)


class CublasWorkspace(VariablesFactor):
    """With several streams, cuBLAS may pick another algorithm when its workspace is not of a fixed size.

    NVIDIA documents `:4096:8` and `:16:8` as the two settings under which cuBLAS repeats. torch up to 2.9 reads the
    variable at the first cuBLAS call, once: one early matmul on the GPU makes a later setting useless. From 2.10 on
    torch no longer checks it, while the library still honours it. cuBLASLt, which computes products with a bias, has a
    workspace of its own (`CUBLASLT_WORKSPACE_SIZE`, in KiB): torch chooses its size by the GPU it finds
    (pytorch/pytorch#120925), and it decides which algorithms fit. Pinned, it is held at 32 MiB, which is what
    `:4096:8` comes to, unless the user has set it.
    """

    name = "cublas-workspace"
    summary = "cuBLAS may choose another algorithm per call unless its workspace has a fixed size"
    explanation = "cuBLAS chose another algorithm"
    too_late = "the first use of CUDA"
    fix = "set CUBLAS_WORKSPACE_CONFIG=:4096:8 before CUDA is first used"
    choices = VALID
    left_alone = True
    needs = ("cuda",)
    priced = ("pinned",)
    kernel_variables = (VARIABLE, LT, "TORCH_BLAS_PREFER_CUBLASLT")

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        given = environ.get(VARIABLE, "")
        if setting.mode == "varied":
            return {VARIABLE: next(value for value in reversed(VALID) if value != given), LT: "1024"}
        if setting.mode == "natural":
            return {}
        return {VARIABLE: setting.value or (given if given in VALID else VALID[0]), LT: environ.get(LT) or LT_SIZE}

    def is_late(self) -> bool:
        torch = sys.modules.get("torch")
        return bool(torch is not None and torch.cuda.is_initialized())

    def observe(self, context: FactorContext | None = None) -> Observation:
        value, late = os.environ.get(VARIABLE, ""), self.is_late()
        asked = context.setting.value if context else None
        held = value == asked if asked else value in VALID
        reason = "CUDA was used before it was set" if late and not held else ""
        return Observation(value or "not set", held, can_pin=not late, reason=reason)


def give_fixed_workspace(context: FactorContext) -> None:
    """Set the workspace size that other pins need, unless a valid one is set or it is too late."""
    if os.environ.get(VARIABLE) not in VALID and not CublasWorkspace().is_late():
        context.set_environment(VARIABLE, VALID[0])


class InductorAutotune(VariablesFactor):
    """Inductor measures several kernels for a reduction or a matrix product and keeps the quickest, also on disk.

    Its cache (`TORCHINDUCTOR_CACHE_DIR`) makes runs on one machine agree; on another machine, or after the cache was
    emptied, the winner may be another kernel with other bits. Pinned, Inductor measures nothing that changes bits
    (`TORCHINDUCTOR_DETERMINISTIC=1`, read by `torch._inductor.config`, from torch 2.9 on); from 2.10 on
    `torch-algorithms` does that, too. Varied, no cache is read or written (`TORCHINDUCTOR_FORCE_DISABLE_CACHES=1`), so
    that every winner is found anew; the user's own cache is never touched. A winner that is always the same says
    nothing about another machine.
    """

    name = "inductor-autotune"
    summary = "torch.compile may keep the kernel that was quickest here, and another machine another one"
    explanation = "torch.compile chose another kernel"
    too_late = "the import of torch._inductor"
    fix = "set TORCHINDUCTOR_DETERMINISTIC=1 before Python starts"
    pinned_by_default = False
    varies_between_runs = False
    may_raise = True
    needs = ("compiled",)
    priced = ("pinned",)
    pinned: ClassVar = {"TORCHINDUCTOR_DETERMINISTIC": "1"}
    varied: ClassVar = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        # Without the user's environment, to pin also where the user has switched it off.
        return super().environment(setting, seed, {})

    def is_late(self) -> bool:
        return "torch._inductor.config" in sys.modules

    def observe(self, context: FactorContext | None = None) -> Observation:
        config = sys.modules.get("torch._inductor.config")
        if config is None:
            held = os.environ.get("TORCHINDUCTOR_DETERMINISTIC") == "1"
            return Observation("nothing will be measured" if held else "not loaded", held or None)
        held = bool(getattr(config, "deterministic", False))
        reason = "" if held else "torch._inductor was imported before, or this torch has no such mode"
        return Observation("nothing that changes bits" if held else "measured", held, can_pin=False, reason=reason)

    def explain(self, error: BaseException) -> str:
        return (
            "inductor-autotune is pinned, and this measures kernels"
            if "In the deterministic mode of Inductor" in str(error)
            else ""
        )


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
    pinned: ClassVar = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_NCHANNELS": "1"}
    varied: ClassVar = {"NCCL_ALGO": "Tree", "NCCL_PROTO": "Simple", "NCCL_NVLS_ENABLE": "0", "NCCL_MAX_NCHANNELS": "2"}

    def is_late(self) -> bool:
        distributed = sys.modules.get("torch.distributed")
        return bool(distributed is not None and distributed.is_available() and distributed.is_initialized())

    def observe(self, context: FactorContext | None = None) -> Observation:
        given = {name: os.environ[name] for name in self.pinned if os.environ.get(name)}
        value = ", ".join(f"{name}={setting}" for name, setting in given.items()) or "chosen by NCCL"
        held, late = len(given) == len(self.pinned), self.is_late()
        reason = "ranks were connected before they were set" if late and not held else ""
        return Observation(value, held, can_pin=not late, reason=reason)
