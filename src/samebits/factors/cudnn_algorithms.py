"""cudnn-algorithms: whether cuDNN may use algorithms whose result depends on timing."""

from __future__ import annotations

import sys
from types import ModuleType

from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext
from samebits.factors.kernel_settings import attributes


class CudnnAlgorithms(Factor):
    """`torch.backends.cudnn.deterministic=True` keeps cuDNN to convolutions that repeat.

    Some of cuDNN's backward convolutions add with atomics. `use_deterministic_algorithms(True)` makes convolutions
    ask for deterministic algorithms as well, but leaves this setting as it is for code that reads it.
    """

    name = "cudnn-algorithms"
    summary = "some cuDNN convolutions add gradients in whatever order their threads arrive"
    explanation = "a convolution whose result depends on timing"
    fix = "set torch.backends.cudnn.deterministic = True"
    selects_algorithm = True
    needs = ("cuda",)
    priced = ("pinned",)
    kernel_variables = ("TORCH_CUDNN_V8_API_DISABLED",)

    def pin(self, context: FactorContext) -> None:
        context.when_loaded("torch", lambda torch: self._set(torch, context, True))

    def vary(self, context: FactorContext) -> None:
        context.when_loaded("torch", lambda torch: self._set(torch, context, not torch.backends.cudnn.deterministic))

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        return attributes(torch, "backends.cudnn.deterministic")

    def observe(self, context: FactorContext | None = None) -> Observation:
        torch = sys.modules.get("torch")
        if torch is None:
            return Observation("torch is not loaded", True if context else None)
        on = torch.backends.cudnn.deterministic
        reason = "the program allowed other algorithms again" if context and not on else ""
        return Observation("deterministic" if on else "any", on, reason=reason)

    def _set(self, torch: ModuleType, context: FactorContext, on: bool) -> None:
        context.undo.callback(setattr, torch.backends.cudnn, "deterministic", torch.backends.cudnn.deterministic)
        torch.backends.cudnn.deterministic = on
