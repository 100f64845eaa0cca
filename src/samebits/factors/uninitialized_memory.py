"""uninitialized-memory: what stands in memory that was asked for and not yet written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from samebits.factors.base import CallFactor, Observation, Scene

FUNCTIONS = ("empty", "empty_like", "empty_strided", "empty_permuted")
METHODS = ("new_empty", "new_empty_strided")


class UninitializedMemory(CallFactor):
    """`torch.empty` and family, and `np.empty`, return whatever stood in that memory before.

    Usually zeros in a short test, the remains of other tensors in a long run. Pinned, such memory is zeroed; varied,
    it is filled with another pattern. Only calls from Python are touched (kernels write all of their own output), so
    the price is one fill per call. torch's own knob, `torch.utils.deterministic.fill_uninitialized_memory`, fills
    much more and costs more; it is off here. Not seen: the legacy constructors `torch.Tensor(n)` and
    `torch.FloatTensor(n)`, and `resize_`.
    """

    name = "uninitialized-memory"
    summary = "torch.empty returns what stood in memory before: zeros in a short test, old tensors in a long run"
    story = "memory of {what} was read before it was written"
    cure = "write every element of the tensor made at line {line} before reading it, or use torch.zeros"
    varied_by_default = True

    def install(self, scene: Scene) -> None:
        scene.when_loaded("torch", lambda torch: _install_torch(torch, scene))
        scene.when_loaded("numpy", lambda numpy: _install_numpy(numpy, scene))

    def observe(self, scene: Scene | None = None) -> Observation:
        if scene is None or scene.mode == "natural":
            return Observation("left as it is", False)
        return Observation("filled with zeros" if scene.mode == "pinned" else "filled with a pattern", True)


def _install_torch(torch: Any, scene: Scene) -> None:
    is_compiling = torch.compiler.is_compiling

    def filling(what: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def empty(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            # Inside a compiled region the compiler decides what memory holds; touching it there would change the graph.
            if is_compiling() or result.layout is not torch.strided or result.device.type == "meta":
                return result
            mode = scene.enter(what)
            if mode != "natural":
                with torch.no_grad():
                    result.fill_(_pattern(torch, result.dtype, mode, scene.setting.variant))
            return result

        return empty

    for name in FUNCTIONS:
        if hasattr(torch, name):
            scene.replace(torch, name, filling(f"torch.{name}", getattr(torch, name)))
    for name in METHODS:
        # Plain functions here: a method has to bind.
        scene.set(torch.Tensor, name, filling(f"Tensor.{name}", getattr(torch.Tensor, name)))


def _pattern(torch: Any, dtype: Any, mode: str, variant: int) -> Any:
    if mode == "pinned":
        return 0
    if dtype is torch.bool:
        return True
    # Small enough for int8 and float8, large enough to be noticed.
    return 77 + variant


def _install_numpy(numpy: Any, scene: Scene) -> None:
    def filling(what: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def empty(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            mode = scene.enter(what)
            if mode != "natural" and result.dtype.kind in "biufc":
                result.fill(0 if mode == "pinned" else 77 + scene.setting.variant)
            return result

        return empty

    for name in ("empty", "empty_like"):
        scene.replace(numpy, name, filling(f"numpy.{name}", getattr(numpy, name)))
