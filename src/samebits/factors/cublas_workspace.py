"""cublas-workspace: how much scratch memory cuBLAS has, and so which algorithm it takes."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from samebits.base.errors import UsageError
from samebits.factors.base import Observation
from samebits.factors.context import FactorContext, Setting
from samebits.factors.switches import VariablesFactor

VARIABLE = "CUBLAS_WORKSPACE_CONFIG"
VALID = (":4096:8", ":16:8")
LT, LT_SIZE = "CUBLASLT_WORKSPACE_SIZE", "32768"


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
    selects_algorithm = True
    needs = ("cuda",)
    priced = ("pinned",)
    kernel_variables = (VARIABLE, LT, "TORCH_BLAS_PREFER_CUBLASLT")

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        own = environ.get(VARIABLE, "")
        if setting.mode == "varied":
            return {VARIABLE: next(value for value in reversed(VALID) if value != own), LT: "1024"}
        if setting.mode == "natural":
            return {}
        return {VARIABLE: setting.value or (own if own in VALID else VALID[0]), LT: environ.get(LT) or LT_SIZE}

    def check_value(self, value: str) -> None:
        if value not in VALID:
            raise UsageError(f"cublas-workspace takes :4096:8 or :16:8, got {value!r}")

    def is_late(self) -> bool:
        torch = sys.modules.get("torch")
        return bool(torch is not None and torch.cuda.is_initialized())

    def observe(self, context: FactorContext | None = None) -> Observation:
        value, late = os.environ.get(VARIABLE, ""), self.is_late()
        asked = context.setting.value if context is not None and context.mode == "pinned" else None
        held = value == asked if asked else value in VALID
        reason = "CUDA was used before it was set" if late and not held else ""
        return Observation(value or "not set", held, can_pin=not late, reason=reason)


def give_fixed_workspace(context: FactorContext) -> None:
    """Set what other pins need, where they are unset and it is not too late."""
    if os.environ.get(VARIABLE) not in VALID and not CublasWorkspace().is_late():
        context.set_environment(VARIABLE, VALID[0])
