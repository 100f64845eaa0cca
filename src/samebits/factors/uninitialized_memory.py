"""uninitialized-memory: what stands in memory that was asked for and not yet written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any

from samebits.base.sites import Site
from samebits.factors.base import CallFactor, Observation, Scene

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
    story = "memory of {what} was read before it was written"
    cure = "write every element of the tensor made at {place} before reading it, or use torch.zeros"
    cure_unplaced = "write every element of new memory before reading it, or use torch.zeros"
    varied_by_default = True
    priced = ("pinned",)

    def install(self, scene: Scene) -> None:
        scene.when_loaded("torch", lambda torch: _install_torch(torch, scene))
        scene.when_loaded("numpy", lambda numpy: _install_numpy(numpy, scene))

    def cure_for(self, site: Site | None = None, script: str = "", what: str = "") -> str:
        cure = super().cure_for(site, script, what)
        return cure.replace("tensor", "array").replace("torch.zeros", "np.zeros") if what.startswith("numpy.") else cure

    def observe(self, scene: Scene | None = None) -> Observation:
        if scene is None or scene.mode == "natural":
            return Observation("left as it is", False)
        return Observation("filled with zeros" if scene.mode == "pinned" else "filled with a pattern", True)


def _install_torch(torch: Any, scene: Scene) -> None:
    is_compiling = torch.compiler.is_compiling

    def filling(what: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def empty(*args: Any, **kwargs: Any) -> Any:
            memory = original(*args, **kwargs)
            # Inside a compiled region the compiler decides what memory holds; touching it there would change the graph.
            if not is_compiling() and _has_memory(torch, memory):
                mode = scene.enter(what)
                if mode != "natural":
                    _fill(torch, memory, _pattern(scene, mode))
            return memory

        return empty

    for name in FUNCTIONS:
        original = getattr(torch, name)
        stand_in = scene.replace(torch, name, filling(f"torch.{name}", original))
        _tell_torchscript(torch, scene, original, stand_in)
    for name in METHODS:
        # Plain functions here: a method has to bind.
        scene.set(torch.Tensor, name, filling(f"Tensor.{name}", getattr(torch.Tensor, name)))


def _has_memory(torch: Any, result: Any) -> bool:
    if not isinstance(result, torch.Tensor) or result.layout is not torch.strided:
        return False
    return not (result.is_quantized or result.is_nested or result.device.type == "meta")


def _fill(torch: Any, memory: Any, value: int) -> None:
    # Not an operation of the program's: whoever records those must not see it. Other classes need their own dispatch.
    unseen = torch._C._DisableTorchDispatch() if type(memory) is torch.Tensor else nullcontext()
    with torch.no_grad(), unseen:
        try:
            memory.fill_(value)
        except RuntimeError:
            # The types below one byte know no numbers.
            memory.view(torch.uint8).fill_(value)


def _pattern(scene: Scene, mode: str) -> int:
    # Small enough for int8 and float8, large enough to be noticed.
    return 0 if mode == "pinned" else 78 + (scene.setting.variant - 1) % 50


def _tell_torchscript(torch: Any, scene: Scene, original: Any, stand_in: Any) -> None:
    """Let `torch.jit.script` compile the stand-in to the operator itself: it knows functions by their identity."""
    table = torch.jit._builtins._get_builtin_table()
    if id(original) in table:
        table[id(stand_in)] = table[id(original)]
        scene.undo.callback(table.pop, id(stand_in))


def _install_numpy(numpy: Any, scene: Scene) -> None:
    def filling(what: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def empty(*args: Any, **kwargs: Any) -> Any:
            memory = original(*args, **kwargs)
            if isinstance(memory, numpy.ndarray) and memory.dtype.kind in "biufc":
                mode = scene.enter(what)
                if mode != "natural":
                    memory.fill(_pattern(scene, mode))
            return memory

        return empty

    for name in ("empty", "empty_like"):
        scene.replace(numpy, name, filling(f"numpy.{name}", getattr(numpy, name)))
