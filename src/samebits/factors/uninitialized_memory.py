"""uninitialized-memory: what stands in memory that was asked for and not yet written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import ModuleType
from typing import Any

from samebits.base.sites import Site
from samebits.factors.base import CallFactor
from samebits.factors.context import FactorContext

FUNCTIONS = ("empty", "empty_like", "empty_strided", "empty_permuted")
METHODS = ("new_empty", "new_empty_strided")


class UninitializedMemory(CallFactor):
    """`torch.empty` and family, and `np.empty`, return whatever stood in that memory before.

    Usually zeros in a short test, the remains of other tensors in a long run. Pinned, such memory is zeroed; varied,
    it is filled with another pattern. Only calls from Python are touched (kernels write all of their own output), so
    the price is one fill per call. torch's own knob, `torch.utils.deterministic.fill_uninitialized_memory`, fills
    much more and costs more; it is off here. Not seen: the legacy constructors `torch.Tensor(n)` and
    `torch.FloatTensor(n)`, `resize_`, memory of quantized and nested tensors, and compiled or scripted code.
    """

    name = "uninitialized-memory"
    summary = "torch.empty returns what stood in memory before: zeros in a short test, old tensors in a long run"
    explanation = "memory of {what} was read before it was written"
    fix = "write every element of the tensor made at {place} before reading it, or use torch.zeros"
    fix_unplaced = "write every element of new memory before reading it, or use torch.zeros"
    varied_by_default = True
    priced = ("pinned",)
    effects = ("left as it is", "filled with zeros", "filled with a pattern")

    def treat(self, context: FactorContext) -> None:
        context.when_loaded("torch", lambda torch: _install_torch(torch, context))
        context.when_loaded("numpy", lambda numpy: _install_numpy(numpy, context))

    def fix_for(self, site: Site | None = None, script: str = "", what: str = "") -> str:
        fix = super().fix_for(site, script, what)
        return fix.replace("tensor", "array").replace("torch.zeros", "np.zeros") if what.startswith("numpy.") else fix


def _filled(
    context: FactorContext,
    what: str,
    is_filled: Callable[[object], bool],
    fill: Callable[[Any, int], object],
    original: Callable[..., object],
    /,
    *args: object,
    **kwargs: object,
) -> object:
    memory = original(*args, **kwargs)
    mode = context.enter(what) if is_filled(memory) else "natural"
    if mode != "natural":
        fill(memory, _pattern(context, mode))
    return memory


def _pattern(context: FactorContext, mode: str) -> int:
    # Small enough for int8 and float8, large enough to be noticed.
    return 0 if mode == "pinned" else 78 + (context.setting.variant - 1) % 50


def _install_torch(torch: ModuleType, context: FactorContext) -> None:
    is_compiling = torch.compiler.is_compiling

    def is_filled(memory: object) -> bool:
        # Inside a compiled region the compiler decides what memory holds; filling it there would change the graph.
        if is_compiling() or not isinstance(memory, torch.Tensor) or memory.layout is not torch.strided:
            return False
        return not (memory.is_quantized or memory.is_nested or memory.device.type == "meta")

    def fill(memory: Any, value: int) -> None:
        # The recording must not see this as an operation of the program. Subclasses need their own dispatch.
        unseen = torch._C._DisableTorchDispatch() if type(memory) is torch.Tensor else nullcontext()
        with torch.no_grad(), unseen:
            try:
                memory.fill_(value)
            except RuntimeError:
                # Types smaller than one byte cannot be filled with a number.
                memory.view(torch.uint8).fill_(value)

    for name in FUNCTIONS:
        context.replace(torch, name, partial(_filled, context, f"torch.{name}", is_filled, fill))
    for name in METHODS:
        context.replace_method(torch.Tensor, name, partial(_filled, context, f"Tensor.{name}", is_filled, fill))


def _install_numpy(numpy: ModuleType, context: FactorContext) -> None:
    def is_filled(memory: object) -> bool:
        return isinstance(memory, numpy.ndarray) and memory.dtype.kind in "biufc"

    for name in ("empty", "empty_like"):
        context.replace(numpy, name, partial(_filled, context, f"numpy.{name}", is_filled, numpy.ndarray.fill))
