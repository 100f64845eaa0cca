"""Running products and sums along one long row, for which the order of torch's own kernel depends on timing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from samebits.ops.sums import widened

# Elements of a block. If there are several rows, torch scans each by itself, in a fixed order.
_BLOCK = 1024


def scanned(
    scan: Callable[[Tensor, int], Tensor],
    joined: Callable[[Tensor, Tensor], Tensor],
    neutral: float,
    self: Tensor,
    dim: int,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor | None:
    """Return, for each element along `dim`, the result of all elements up to it.

    Args:
        scan: torch's operation, which scans several rows each by itself.
        joined: combines the results of two parts of a row.
        neutral: the value that changes nothing when it is combined.
        self: one row, floating: no dimension but `dim` is longer than 1. Everything else is left to torch.
        dim: the dimension to scan along.
        dtype: dtype of the result, and of the elements that are combined.
    """
    x = self if dtype is None else self.to(dtype)
    if x.dim() == 0 or x.numel() == 0 or x.numel() != x.shape[dim] or not x.is_floating_point():
        return None
    return _row(widened(x).flatten(), scan, joined, neutral).view(x.shape).to(x.dtype)


def _row(
    x: Tensor, scan: Callable[[Tensor, int], Tensor], joined: Callable[[Tensor, Tensor], Tensor], neutral: float
) -> Tensor:
    """Scan blocks, then their results, and combine the two; a row is added, so that `scan` never gets a single one."""
    blocks = -(-x.numel() // _BLOCK)
    rows = x.new_full(((blocks + 1) * _BLOCK,), neutral)
    rows[: x.numel()] = x
    results = scan(rows.view(blocks + 1, _BLOCK), 1)
    if blocks > 1:
        before = _row(results[: blocks - 1, -1].contiguous(), scan, joined, neutral)
        results[1:blocks] = joined(results[1:blocks], before.unsqueeze(1))
    return results.flatten()[: x.numel()].contiguous()
