"""Linear maps along one dimension each, and their gradients: pooling by means, resampling.

The gradient of `y = x @ W.T` along a dimension is `grad @ W`. In a row of W only a few neighbours are not zero, so the
product is made in bands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from samebits.ops.sums import shaped, wide

# Columns of a band, and how long a sum needs none. A GPU has no threads to count; on the CPU, MKL splits products by
# their number: with bands of 64 in 2 of 5 shapes that were tried, with these in 1 of 39.
_BAND, _SHORT = 16, 16


class LinearMap:
    """A matrix on the host, and a copy of it for each device that has asked.

    Args:
        matrix: (outputs, inputs), float64, on the CPU.
    """

    def __init__(self, matrix: Tensor) -> None:
        self.outputs, self.inputs = matrix.shape
        self._copies: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        # Columns side by side, without the rows around them that hold nothing but zeros: where they begin and end.
        self._bands: list[tuple[int, int, Tensor]] = []
        for columns in torch.split(matrix, _BAND if self.outputs > _SHORT else self.inputs, 1):
            rows = columns.ne(0).any(1).nonzero().flatten().tolist() or [0]
            low, high = rows[0], rows[-1] + 1
            self._bands.append((low, high, columns[low:high].contiguous()))

    def transposed(self, grad: Tensor, dim: int) -> Tensor:
        """The gradient of the input: `grad` with `inputs` instead of `outputs` elements along `dim`.

        What is not finite spreads over its band, as zero times infinity does.
        """
        shape = grad.shape
        # Split products of a lower precision would not do.
        dtype = grad.dtype if _multiplies_exactly() else torch.float64
        rows = grad.reshape(shape[:dim].numel(), self.outputs, shape[dim + 1 :].numel()).to(dtype)
        parts = []
        for (low, high, _), band in zip(self._bands, self._on(grad.device, dtype), strict=True):
            if rows.shape[2] == 1:
                parts.append((rows[:, low:high, 0] @ band).unsqueeze(2))
            else:
                parts.append(torch.bmm(band.t().expand(rows.shape[0], -1, -1), rows[:, low:high]))
        found = parts[0] if len(parts) == 1 else torch.cat(parts, 1)
        return found.to(grad.dtype).view(*shape[:dim], self.inputs, *shape[dim + 1 :])

    def _on(self, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
        if (device, dtype) not in self._copies:
            # Ready on the host: a copy from there is waited for, so whatever stream asks next finds it whole.
            self._copies[device, dtype] = [band.to(dtype).to(device) for _, _, band in self._bands]
        return self._copies[device, dtype]


def _multiplies_exactly() -> bool:
    """Whether products of float32 are made in float32."""
    try:
        return torch.get_float32_matmul_precision() == "highest" and not torch.backends.cuda.matmul.allow_tf32
    except RuntimeError:
        # Older and newer switches contradict one another.
        return False


def transposed(grad: Tensor, maps: Sequence[LinearMap], like: Tensor) -> Tensor:
    """The gradient of maps along the last dimensions, one for each, in the dtype and memory format of `like`."""
    found = wide(grad)
    # What shrinks comes first.
    for back, each in sorted(enumerate(reversed(maps), 1), key=lambda one: one[1].inputs / one[1].outputs):
        found = each.transposed(found, found.dim() - back)
    return shaped(found, like)


@lru_cache(maxsize=256)
def means(windows: tuple[tuple[int, int, float], ...], inputs: int) -> LinearMap:
    """Sums over windows, each given as its first input, the one after its last, and what divides the sum."""
    matrix = torch.zeros(len(windows), inputs, dtype=torch.float64, device="cpu")
    for row, (first, last, divisor) in zip(matrix, windows, strict=True):
        row[first:last] = 1 / divisor
    return LinearMap(matrix)


@lru_cache(maxsize=256)
def resampled(kind: Callable[..., Tensor], inputs: int, outputs: int, corners: bool, scale: float | None) -> LinearMap:
    """What an operation of torch's does along one dimension, found by asking it for unit vectors in float64."""
    unit = torch.eye(inputs, dtype=torch.float64, device="cpu")
    if kind is torch.ops.aten.upsample_linear1d.default:
        return LinearMap(kind(unit[None], [outputs], corners, scale)[0].t().contiguous())
    # Along the last dimension: planes one element wide are resampled wrongly with antialias (torch 2.13).
    return LinearMap(kind(unit[None, :, None, :], [1, outputs], corners, None, scale)[0, :, 0, :].t().contiguous())


def forget() -> None:
    """Give back the memory of matrices that were made."""
    means.cache_clear()
    resampled.cache_clear()
