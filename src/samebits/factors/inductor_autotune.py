"""inductor-autotune: whether torch.compile picks kernels by measuring them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import ClassVar

from samebits.factors.base import Observation
from samebits.factors.context import FactorContext, Setting
from samebits.factors.switches import VariablesFactor

PINNED, VARIED = "TORCHINDUCTOR_DETERMINISTIC", "TORCHINDUCTOR_FORCE_DISABLE_CACHES"
BANNED = "In the deterministic mode of Inductor"


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
    pinned: ClassVar = {PINNED: "1"}
    varied: ClassVar = {VARIED: "1"}

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        # Also where the user has switched it off.
        return super().environment(setting, seed, {})

    def is_late(self) -> bool:
        return "torch._inductor.config" in sys.modules

    def observe(self, context: FactorContext | None = None) -> Observation:
        config = sys.modules.get("torch._inductor.config")
        if config is None:
            held = os.environ.get(PINNED) == "1"
            return Observation("nothing will be measured" if held else "not loaded", held or None)
        held = bool(getattr(config, "deterministic", False))
        reason = "" if held else "torch._inductor was imported before, or this torch has no such mode"
        return Observation("nothing that changes bits" if held else "measured", held, can_pin=False, reason=reason)

    def explain(self, error: BaseException) -> str:
        return "inductor-autotune is pinned, and this measures kernels" if BANNED in str(error) else ""
