"""Ways of looking at torch from the side: listeners around its functions, and what hangs on tensors and modules."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

import torch

from samebits.base.sites import leave_out_own_frames

Named = tuple[str, Any]


def listen(
    owner: object,
    name: str,
    before: Callable[..., None] | None = None,
    after: Callable[..., None] | None = None,
    failed: Callable[..., None] | None = None,
) -> Callable[[], None]:
    """Put a listener around a function: `before(*args)`, `after(result, *args)`, `failed(*args)` when it raises.

    Returns:
        What takes it away again, unless something else has been put around it since.
    """
    original = getattr(owner, name)

    def wrapped(*args: object, **kwargs: object) -> object:
        if before is not None:
            before(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            if failed is not None:
                failed(*args)
            leave_out_own_frames(error)
            raise
        if after is not None:
            after(result, *args)
        return result

    def undo() -> None:
        if getattr(owner, name) is wrapped:
            setattr(owner, name, original)

    functools.update_wrapper(wrapped, original)
    setattr(owner, name, wrapped)
    return undo


def unwrapped(tensor: object) -> Any:
    """The tensor below the wrappers that torch.func and vmap put around it."""
    functorch: ModuleType = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def gradients(named: Iterable[Named]) -> list[Named]:
    """The gradients that are there, under their parameters' names."""
    return [(name, tensor.grad) for name, tensor in named if tensor.is_leaf and tensor.grad is not None]


def graph_leaves(tensors: Sequence[Any]) -> list[object]:
    """The tensors whose gradients a backward from `tensors` fills, nearest first."""
    found: dict[int, object] = {}
    nodes = [t.grad_fn for t in tensors if t.grad_fn is not None]
    known = set(nodes)
    for node in nodes:
        variable = getattr(node, "variable", None)
        if variable is not None:
            found.setdefault(id(variable), variable)
        for following, _ in node.next_functions:
            if following is not None and following not in known:
                known.add(following)
                nodes.append(following)
    return list(found.values())


def as_tensor(leaf: object) -> Any:
    """A tensor for what can be digested as one: tensors, and NumPy arrays of numbers; None for anything else."""
    if torch.is_tensor(leaf):
        return leaf
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(leaf, numpy.ndarray | numpy.generic):
        return _of_array(numpy.asarray(leaf))
    return None


def _of_array(array: Any) -> object:
    """A copy of a NumPy array; of its bytes where torch has no such numbers."""
    if array.dtype.kind not in "biufc" or not array.dtype.isnative:
        return None
    dtype = getattr(torch, array.dtype.name, None)
    if array.size == 0:
        return torch.zeros(array.shape, dtype=dtype if isinstance(dtype, torch.dtype) else torch.uint8)
    raw = bytearray(array.tobytes())
    if not isinstance(dtype, torch.dtype):
        return torch.frombuffer(raw, dtype=torch.uint8)
    return torch.frombuffer(raw, dtype=dtype).reshape(array.shape)
