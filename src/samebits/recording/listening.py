"""Ways of looking at torch from the side: listeners around its functions, and what hangs on tensors and modules."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

Named = tuple[str, Any]


def listen(
    owner: Any,
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

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before(*args, **kwargs)
        try:
            result = original(*args, **kwargs)
        except BaseException:
            if failed is not None:
                failed(*args)
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


def gradients(named: Iterable[Named]) -> list[Named]:
    """The gradients that are there, under their parameters' names."""
    return [(name, tensor.grad) for name, tensor in named if tensor.is_leaf and tensor.grad is not None]


def named_state(module: Any) -> list[Named]:
    """Parameters and buffers of a module, but for those that lazy modules have not made yet."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return [(name, tensor) for name, tensor in named if not torch.nn.parameter.is_lazy(tensor)]


def graph_leaves(tensors: Sequence[Any]) -> list[Any]:
    """The tensors whose gradients a backward from `tensors` fills, nearest first."""
    found: dict[int, Any] = {}
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


def as_tensor(leaf: Any) -> Any:
    """A tensor for what can be digested as one: tensors, and NumPy arrays of numbers; None for anything else."""
    if torch.is_tensor(leaf):
        return leaf
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(leaf, numpy.ndarray | numpy.generic):
        array_ = numpy.asarray(leaf)
        if array_.dtype.kind in "biufc" and array_.dtype.isnative:
            return torch.frombuffer(bytearray(array_.tobytes()), dtype=torch.uint8) if array_.size else None
    return None
