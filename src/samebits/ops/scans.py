"""Running products and sums along one long row, where the order in which torch's kernel goes depends on timing."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from samebits.ops.sums import wide

# Elements of a block. Of several rows torch scans each by itself, in a fixed order.
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
    """What the first elements along `dim` come to.

    Args:
        scan: torch's operation, which scans several rows each by itself.
        joined: puts together what two parts of a row come to.
        neutral: changes nothing where it is joined.
        self: one row: nothing but `dim` is longer than 1; floating. All else is left to torch.
        dim: along which.
        dtype: of the result, and of what is put together.
    """
    x = self if dtype is None else self.to(dtype)
    if x.dim() == 0 or x.numel() == 0 or x.numel() != x.shape[dim] or not x.is_floating_point():
        return None
    return _row(wide(x).flatten(), scan, joined, neutral).view(x.shape).to(x.dtype)


def _row(
    x: Tensor, scan: Callable[[Tensor, int], Tensor], joined: Callable[[Tensor, Tensor], Tensor], neutral: float
) -> Tensor:
    """Blocks by themselves, what they come to, and the two together; one row more, lest it be a single one."""
    blocks = -(-x.numel() // _BLOCK)
    rows = x.new_full(((blocks + 1) * _BLOCK,), neutral)
    rows[: x.numel()] = x
    found = scan(rows.view(blocks + 1, _BLOCK), 1)
    if blocks > 1:
        before = _row(found[: blocks - 1, -1].contiguous(), scan, joined, neutral)
        found[1:blocks] = joined(found[1:blocks], before.unsqueeze(1))
    return found.flatten()[: x.numel()].contiguous()
