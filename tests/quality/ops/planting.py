"""Ways to make one operation differ in the second run, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from samebits.agent.ops.schemas import schema_of

_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


class Fault:
    """Asked by models whose fault is their own: only the second run of a faulty pair has it."""

    is_on = False


def nudge(tensor: Tensor) -> Tensor:
    """The same tensor, its first number changed to the one next to it."""
    dense = tensor._values() if tensor.is_sparse else tensor
    real = torch.view_as_real(dense) if dense.is_complex() else dense
    first = real.detach().as_strided((1,), (1,))
    first.view(_INTEGERS[first.itemsize]).add_(1)
    return tensor


class Slip(TorchDispatchMode):
    """A kernel that once gives another bit.

    Entered before the recorder it lies below it, where kernels are: the recorder sees what they would have done.

    Args:
        op: `aten::add_.Tensor`.
        call: how many calls of it go well before.
        tensor: which to change, counted through its results and then its arguments.
    """

    def __init__(self, op: str, call: int = 0, tensor: int = 0) -> None:
        super().__init__()
        self.op, self.calls_left, self.tensor = op, call, tensor

    @property
    def has_happened(self) -> bool:
        return self.calls_left < 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.name() == self.op:
            if self.calls_left == 0:
                nudge([leaf for leaf in tree_leaves((result, args, kwargs)) if torch.is_tensor(leaf)][self.tensor])
            self.calls_left -= 1
        return result


class Watch(TorchDispatchMode):
    """The names of the operations that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not schema_of(func).is_silent:
            self.ops.append(func.name())
        return func(*args, **(kwargs or {}))


class Net(nn.Module):
    """Some parts, and what is done with them and the input."""

    def __init__(self, way: Callable[[Any, Tensor], Tensor], **parts: nn.Module) -> None:
        super().__init__()
        self.way = way
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self, x)


def fit(model: nn.Module, *shape: int, steps: int = 2, make: Callable[..., Any] = torch.optim.SGD) -> None:
    """Train for some steps on noise."""
    optimizer = make(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(shape)).float().square().mean()
        loss.backward()
        optimizer.step()  # <- step_after_recomputation
