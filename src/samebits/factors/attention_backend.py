"""attention-backend: which of its implementations scaled dot-product attention may use."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from samebits.factors.context import FactorContext
from samebits.factors.switches import TorchSetting, read_switch

BACKENDS = ("flash", "mem_efficient", "math", "cudnn")


class AttentionBackend(TorchSetting):
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
    choices = BACKENDS
    pinned_by_default = False
    varies_between_runs = False
    priced = ("pinned",)

    def set(self, torch: ModuleType, context: FactorContext) -> None:
        is_free = len(_allowed(torch)) > 1
        wanted = (context.setting.value or "math",) if context.mode == "pinned" or is_free else BACKENDS
        for name, (is_enabled, enable) in _switches(torch).items():
            context.undo.callback(enable, is_enabled())
            enable(name in wanted)

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        asked = {name: read_switch(is_enabled) for name, (is_enabled, _) in _switches(torch).items()}
        return {f"backends.cuda.enable_{name}_sdp": [on] for name, on in asked.items() if on is not None}

    def in_effect(self, torch: ModuleType) -> tuple[str, str]:
        allowed = _allowed(torch)
        return ", ".join(allowed) or "none", "" if len(allowed) == 1 else "the program allows others again"


def _switches(torch: ModuleType) -> dict[str, tuple[Callable[[], bool], Callable[[bool], None]]]:
    """Return backend → the functions that read and set whether it is allowed, for the backends of this torch."""
    cuda = torch.backends.cuda
    names = [name for name in BACKENDS if hasattr(cuda, f"{name}_sdp_enabled")]
    return {name: (getattr(cuda, f"{name}_sdp_enabled"), getattr(cuda, f"enable_{name}_sdp")) for name in names}


def _allowed(torch: ModuleType) -> list[str]:
    return [name for name, (is_enabled, _) in _switches(torch).items() if is_enabled()]
