"""Reads tensors of the user's program: below wrappers, in the graph behind a loss, and from NumPy arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import torch

Named = tuple[str, torch.Tensor]


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor below the wrappers that torch.func and vmap put around it."""
    functorch: ModuleType = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def gradients(named: Iterable[Named]) -> list[Named]:
    """Return the gradients of the leaves that have one, under the names of the leaves."""
    return [(name, tensor.grad) for name, tensor in named if tensor.is_leaf and tensor.grad is not None]


def graph_leaves(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors whose gradients a backward from `tensors` fills, nearest first."""
    leaves: dict[int, torch.Tensor] = {}
    nodes = [t.grad_fn for t in tensors if t.grad_fn is not None]
    seen = set(nodes)
    for node in nodes:
        variable = getattr(node, "variable", None)
        if variable is not None:
            leaves.setdefault(id(variable), variable)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
    return list(leaves.values())


def as_tensor(leaf: object) -> torch.Tensor | None:
    """Return a tensor for what can be digested as one: tensors, NumPy arrays and scalars of numbers; else None."""
    if torch.is_tensor(leaf):
        return leaf
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(leaf, numpy.ndarray | numpy.generic):
        return _of_array(numpy.asarray(leaf))
    return None


def _of_array(array: Any) -> torch.Tensor | None:
    """Return a copy of a NumPy array, of its bytes where torch lacks the dtype; None if it holds no native numbers."""
    if array.dtype.kind not in "biufc" or not array.dtype.isnative:
        return None
    dtype = getattr(torch, array.dtype.name, None)
    if array.size == 0:
        return torch.zeros(array.shape, dtype=dtype if isinstance(dtype, torch.dtype) else torch.uint8)
    raw = bytearray(array.tobytes())
    if not isinstance(dtype, torch.dtype):
        return torch.frombuffer(raw, dtype=torch.uint8)
    return torch.frombuffer(raw, dtype=dtype).reshape(array.shape)
