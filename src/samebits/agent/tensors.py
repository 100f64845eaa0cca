"""Tensors of the program's as they are looked at: below wrappers, behind a loss, and in NumPy's arrays."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import torch

Named = tuple[str, torch.Tensor]


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor below the wrappers that torch.func and vmap put around it."""
    functorch: ModuleType = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def gradients(named: Iterable[Named]) -> list[Named]:
    """The gradients that are there, under their parameters' names."""
    return [(name, tensor.grad) for name, tensor in named if tensor.is_leaf and tensor.grad is not None]


def graph_leaves(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The tensors whose gradients a backward from `tensors` fills, nearest first."""
    found: dict[int, torch.Tensor] = {}
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


def as_tensor(leaf: object) -> torch.Tensor | None:
    """A tensor for what can be digested as one: tensors, and NumPy arrays of numbers; None for anything else."""
    if torch.is_tensor(leaf):
        return leaf
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(leaf, numpy.ndarray | numpy.generic):
        return _of_array(numpy.asarray(leaf))
    return None


def _of_array(array: Any) -> torch.Tensor | None:
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
