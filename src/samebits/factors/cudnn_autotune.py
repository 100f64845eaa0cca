"""cudnn-autotune: whether cuDNN times several algorithms and keeps the quickest."""

from __future__ import annotations

import sys
from types import ModuleType

from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext
from samebits.factors.kernel_settings import attributes


class CudnnAutotune(Factor):
    """`torch.backends.cudnn.benchmark=True` searches for the quickest convolution for every new input shape.

    The winner of a race between algorithms may be another one in the next run, with other bits. For fixed shapes it
    is often quicker, for varying shapes it searches again and again. `use_deterministic_algorithms` leaves this
    setting alone. How many algorithms are tried, `torch.backends.cudnn.benchmark_limit` says; with the search off it
    means nothing.
    """

    name = "cudnn-autotune"
    summary = "cuDNN's autotuner keeps the algorithm that was quickest this time, which may not be next time's"
    explanation = "the autotuner chose another algorithm"
    fix = "set torch.backends.cudnn.benchmark = False"
    selects_algorithm = True
    needs = ("cuda",)
    priced = ("pinned", "varied")

    def pin(self, context: FactorContext) -> None:
        context.when_loaded("torch", lambda torch: self._set(torch, context, False))

    def vary(self, context: FactorContext) -> None:
        context.when_loaded("torch", lambda torch: self._set(torch, context, not torch.backends.cudnn.benchmark))

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        return attributes(torch, "backends.cudnn.benchmark")

    def observe(self, context: FactorContext | None = None) -> Observation:
        torch = sys.modules.get("torch")
        if torch is None:
            return Observation("torch is not loaded", True if context else None)
        on = torch.backends.cudnn.benchmark
        reason = "the program switched the autotuner on again" if on and context else ""
        return Observation("on" if on else "off", not on, reason=reason)

    def _set(self, torch: ModuleType, context: FactorContext, on: bool) -> None:
        context.undo.callback(setattr, torch.backends.cudnn, "benchmark", torch.backends.cudnn.benchmark)
        torch.backends.cudnn.benchmark = on
