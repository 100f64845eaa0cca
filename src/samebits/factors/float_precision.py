"""float-precision: whether float32 products may be computed with fewer bits."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from samebits.factors.context import FactorContext
from samebits.factors.switches import TorchSetting, attributes, read_switch


class FloatPrecision(TorchSetting):
    """TF32 and reduced-precision reductions round float32 products to fewer bits where the hardware can.

    They repeat from run to run; what they change is the result between machines with and without such hardware, and
    between library defaults. Switching them off costs much speed on recent GPUs, so it is pinned only when asked for.
    """

    name = "float-precision"
    summary = "TF32 and reduced-precision reductions round products to fewer bits on hardware that has them"
    explanation = "products are rounded to another number of bits"
    fix = 'call torch.set_float32_matmul_precision("highest")'
    pinned_by_default = False
    varies_between_runs = False
    priced = ("pinned",)
    kernel_variables = ("NVIDIA_TF32_OVERRIDE",)

    def set(self, torch: ModuleType, context: FactorContext) -> None:
        reduced = context.mode == "varied" and not _reductions(torch)
        owners = list(_precisions(torch).values())
        for owner in owners:
            # All are read before any is set: a specific setting may return the general one above it.
            context.undo.callback(setattr, owner, "fp32_precision", owner.fp32_precision)
        for owner in owners:
            # Set before the older settings, which can be read only while they do not contradict the newer ones.
            owner.fp32_precision = "ieee"
        context.undo.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("medium" if reduced else "highest")
        context.undo.callback(setattr, torch.backends.cudnn, "allow_tf32", _cudnn_allows_tf32(torch))
        torch.backends.cudnn.allow_tf32 = reduced
        matmul = torch.backends.cuda.matmul
        for name in _switches(torch):
            parts = [getattr(matmul, part) for part in (name, f"{name}_split_k") if hasattr(matmul, part)]
            context.undo.callback(setattr, matmul, name, tuple(parts) if len(parts) > 1 else parts[0])
            setattr(matmul, name, reduced)

    def kernel_settings(self, torch: ModuleType) -> dict[str, object]:
        general = read_switch(torch.get_float32_matmul_precision)
        older = [f"backends.cuda.matmul.{name}" for name in _switches(torch)]
        # Only the settings for one kind of operation.
        names = [f"backends.{name.replace(' ', '.')}.fp32_precision" for name in _precisions(torch) if " " in name]
        particular = attributes(torch, *names, "backends.cudnn.allow_tf32", *older)
        return {**({} if general is None else {"set_float32_matmul_precision": [general]}), **particular}

    def in_effect(self, torch: ModuleType) -> tuple[str, str]:
        reduced = _reductions(torch)
        value = f"reduced: {', '.join(reduced)}" if reduced else "full float32"
        return value, f"the program allows fewer bits again ({value})" if reduced else ""


def _precisions(torch: ModuleType) -> dict[str, Any]:
    """Return the objects of torch ≥ 2.9 with a precision: "ieee" is full precision, "none" follows the one above."""
    backends = torch.backends
    if not hasattr(backends, "fp32_precision"):
        return {}
    owners = {"all": backends, "cuda matmul": backends.cuda.matmul}
    for backend in ("cudnn", "mkldnn"):
        above = owners[backend] = getattr(backends, backend)
        owners |= {f"{backend} {op}": getattr(above, op) for op in ("matmul", "conv", "rnn") if hasattr(above, op)}
    return owners


def _switches(torch: ModuleType) -> list[str]:
    names = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    return [name for name in (*names, "allow_fp16_accumulation") if hasattr(torch.backends.cuda.matmul, name)]


def _cudnn_allows_tf32(torch: ModuleType) -> bool:
    try:
        return bool(torch.backends.cudnn.allow_tf32)
    except RuntimeError:
        # torch refuses to answer where this setting disagrees with the newer one, which is "ieee" here.
        return True


def _reductions(torch: ModuleType) -> list[str]:
    """Return the names of everything that may compute with fewer bits now."""
    precisions = {name: owner.fp32_precision for name, owner in _precisions(torch).items()}
    if not precisions:
        precisions["matmul"] = torch.get_float32_matmul_precision()
        precisions["cudnn"] = "tf32" if torch.backends.cudnn.allow_tf32 else "none"
    reduced = [f"{name} {value}" for name, value in precisions.items() if value not in ("none", "ieee", "highest")]
    return reduced + [name for name in _switches(torch) if getattr(torch.backends.cuda.matmul, name)]
