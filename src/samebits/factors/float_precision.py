"""float-precision: whether float32 products may be computed with fewer bits."""

from __future__ import annotations

import sys
from typing import Any

from samebits.factors.base import Factor, Observation, Scene


class FloatPrecision(Factor):
    """TF32 and reduced-precision reductions round float32 products to fewer bits where the hardware can.

    They repeat from run to run; what they change is the result between machines with and without such hardware, and
    between library defaults. Switching them off costs much speed on recent GPUs, so it is pinned only when asked for.
    """

    name = "float-precision"
    summary = "TF32 and reduced-precision reductions round products to fewer bits on hardware that has them"
    story = "products are rounded to another number of bits"
    cure = 'call torch.set_float32_matmul_precision("highest")'
    pinned_by_default = False
    drifts = False

    def pin(self, scene: Scene) -> None:
        scene.when_loaded("torch", lambda torch: _set(torch, scene, "highest", False))

    def vary(self, scene: Scene) -> None:
        def change(torch: Any) -> None:
            low = torch.get_float32_matmul_precision() == "highest"
            _set(torch, scene, "medium" if low else "highest", low)

        scene.when_loaded("torch", change)

    def observe(self, scene: Scene | None = None) -> Observation:
        torch = sys.modules.get("torch")
        if torch is None:
            return Observation("torch is not loaded", True if scene else None)
        precision = torch.get_float32_matmul_precision()
        reduced = [name for owner, name in _switches(torch) if getattr(owner, name)]
        held = precision == "highest" and not reduced
        value = f"matmul {precision}" + (f", allowed: {', '.join(reduced)}" if reduced else "")
        return Observation(value, held, reason="" if held else f"the program allows fewer bits again ({value})")


def _switches(torch: Any) -> list[tuple[Any, str]]:
    """The flags besides the matmul precision, as far as this torch has them; TF32 in cuDNN is on by default."""
    matmul = torch.backends.cuda.matmul
    names = ("allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    return [(torch.backends.cudnn, "allow_tf32"), *((matmul, name) for name in names if hasattr(matmul, name))]


def _set(torch: Any, scene: Scene, precision: str, reduced: bool) -> None:
    scene.undo.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
    torch.set_float32_matmul_precision(precision)
    for owner, name in _switches(torch):
        scene.undo.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, reduced)
