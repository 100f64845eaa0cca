"""Sums in a fixed order: of all elements, of those with one key, and in which precision."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

# Elements that are added one after another. Another number gives other bits.
_ROW = 1024


def widened(x: Tensor) -> Tensor:
    """Return the values in the dtype in which they are added up: float32 for half types."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def total(x: Tensor) -> Tensor:
    """Return the sum of all elements: of rows, then of their sums, so that the number of threads does not matter."""
    x = x.flatten()
    while x.numel() > _ROW:
        rest = -x.numel() % _ROW
        x = (functional.pad(x, (0, rest)) if rest else x).view(-1, _ROW).sum(1)
    return x.sum()


def add_at(size: int, keys: Tensor, values: Tensor) -> Tensor:
    """Return the sum of the values of each key, added one after another in the order of `values`.

    On a GPU, torch sorts the keys stably if deterministic algorithms are on; on the CPU, a single thread adds.

    Args:
        size: how many keys there are.
        keys: (M), int64, from 0.
        values: (M, ...), floating.

    Returns:
        A tensor (size, ...) of the dtype of `values`; zero for a key without values.
    """
    return values.new_zeros(size, *values.shape[1:]).index_add_(0, keys, values)


def shaped(found: Tensor, like: Tensor) -> Tensor:
    """Return the values in the dtype and memory format of another tensor, as torch's kernels return them."""
    return found.to(like.dtype).contiguous(memory_format=torch._prims_common.suggest_memory_format(like))
