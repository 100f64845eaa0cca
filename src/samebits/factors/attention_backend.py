"""attention-backend: which of its implementations scaled dot-product attention may use."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from samebits.base.errors import UsageError
from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext
from samebits.factors.kernel_settings import answer

BACKENDS = ("flash", "mem_efficient", "math", "cudnn")


class AttentionBackend(Factor):
    """`scaled_dot_product_attention` picks flash, memory-efficient, cuDNN or plain attention by hardware and shapes.

    Each rounds differently. The choice repeats on one machine, and may be another one on other hardware or with
    another release; so it is pinned only when asked for. Pinned: plain attention ("math"), which everything has, and
    which needs memory for the whole matrix of weights; `--pin attention-backend=flash` and the like hold another one,
    and attention raises where that cannot be used. On the CPU there are flash and math. Varied, math alone is left
    where others are allowed, and else all are. What the program allows inside `torch.nn.attention.sdpa_kernel` counts
    there. The backward of flash and memory-efficient attention adds with atomics on GPUs unless deterministic
    algorithms are asked for; `--pin torch-algorithms=warn` leaves that as it is.
    """

    name = "attention-backend"
    summary = "attention is computed by another implementation on other hardware, with other roundings"
    explanation = "attention is computed by another implementation"
    fix = "call the attention inside torch.nn.attention.sdpa_kernel(SDPBackend.MATH)"
    pinned_by_default = False
    varies_between_runs = False
    priced = ("pinned",)

    def check_value(self, value: str) -> None:
        if value not in BACKENDS:
            raise UsageError(f"attention-backend takes {', '.join(BACKENDS)}, got {value!r}")

    def pin(self, context: FactorContext) -> None:
        context.when_loaded("torch", lambda torch: _allow(torch, context, (context.setting.value or "math",)))

    def vary(self, context: FactorContext) -> None:
        def change(torch: ModuleType) -> None:
            is_free = len(_allowed(torch)) > 1
            _allow(torch, context, ("math",) if is_free else BACKENDS)

        context.when_loaded("torch", change)

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        asked = {name: answer(is_enabled) for name, (is_enabled, _) in _switches(torch).items()}
        return {f"backends.cuda.enable_{name}_sdp": [on] for name, on in asked.items() if on is not None}

    def observe(self, context: FactorContext | None = None) -> Observation:
        torch = sys.modules.get("torch")
        if torch is None:
            return Observation("torch is not loaded", True if context else None)
        allowed = _allowed(torch)
        reason = "the program allows others again" if context and len(allowed) > 1 else ""
        return Observation(", ".join(allowed) or "none", len(allowed) == 1, reason=reason)


def _switches(torch: ModuleType) -> dict[str, tuple[Any, Any]]:
    """Backend → how to ask, and how to set; those that this torch has."""
    cuda = torch.backends.cuda
    found = {name: (f"{name}_sdp_enabled", f"enable_{name}_sdp") for name in BACKENDS}
    return {
        name: (getattr(cuda, ask), getattr(cuda, enable)) for name, (ask, enable) in found.items() if hasattr(cuda, ask)
    }


def _allowed(torch: ModuleType) -> list[str]:
    return [name for name, (is_enabled, _) in _switches(torch).items() if is_enabled()]


def _allow(torch: ModuleType, context: FactorContext, wanted: tuple[str, ...]) -> None:
    for name, (is_enabled, enable) in _switches(torch).items():
        context.undo.callback(enable, is_enabled())
        enable(name in wanted)
