"""Linear maps, each along one dimension, and their gradients: mean pooling, resampling.

The gradient of `y = x @ W.T` along a dimension is `grad @ W`. In a row of W only a few neighbours are not zero, so the
product is computed in bands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import torch
from torch import Tensor

from samebits.ops.sums import shaped, widened

# Columns of a band, and the length up to which a sum needs no bands. A GPU has no threads to count; on the CPU, MKL
# splits products by the number of threads: with bands of 64 in 2 of 5 shapes that were tried, with these in 1 of 39.
_BAND, _SHORT = 16, 16


class LinearMap:
    """A matrix on the host, and a copy of it for each device and dtype that was asked for.

    Args:
        matrix: (outputs, inputs), float64, on the CPU.
    """

    def __init__(self, matrix: Tensor) -> None:
        self.outputs, self.inputs = matrix.shape
        self._copies: dict[tuple[torch.device, torch.dtype], list[Tensor]] = {}
        # Bands of neighbouring columns, without the rows of zeros around them: first row, row after the last, values.
        self._bands: list[tuple[int, int, Tensor]] = []
        for columns in torch.split(matrix, _BAND if self.outputs > _SHORT else self.inputs, 1):
            rows = columns.ne(0).any(1).nonzero().flatten().tolist() or [0]
            low, high = rows[0], rows[-1] + 1
            self._bands.append((low, high, columns[low:high].contiguous()))
        # Means over windows that do not overlap need no product: the weight of each output, the output of each input.
        weights, of_input = matrix.amax(1), matrix.ne(0).int().argmax(0)
        spread = torch.zeros_like(matrix).scatter_(0, of_input[None], weights[of_input][None])
        self._windows = [weights, of_input] if torch.equal(spread, matrix) else []

    def transposed(self, grad: Tensor, dim: int) -> Tensor:
        """Return the gradient of the input: `grad` with `inputs` instead of `outputs` elements along `dim`.

        A value that is not finite spreads over its band, since zero times infinity is NaN.
        """
        shape = grad.shape
        rows = grad.reshape(shape[:dim].numel(), self.outputs, shape[dim + 1 :].numel())
        if self._windows:
            weights, of_input = self._on(grad.device, grad.dtype)
            result = (rows * weights[:, None]).index_select(1, of_input)
        else:
            # Where products of float32 are made in a lower precision, float64 is needed.
            dtype = grad.dtype if _multiplies_exactly() else torch.float64
            parts, rows = [], rows.to(dtype)
            for (low, high, _), band in zip(self._bands, self._on(grad.device, dtype), strict=True):
                if rows.shape[2] == 1:
                    parts.append((rows[:, low:high, 0] @ band).unsqueeze(2))
                else:
                    parts.append(torch.bmm(band.t().expand(rows.shape[0], -1, -1), rows[:, low:high]))
            result = (parts[0] if len(parts) == 1 else torch.cat(parts, 1)).to(grad.dtype)
        return result.view(*shape[:dim], self.inputs, *shape[dim + 1 :])

    def _on(self, device: torch.device, dtype: torch.dtype) -> list[Tensor]:
        if (device, dtype) not in self._copies:
            # Converted on the host: the copy from there is waited for, so every stream that asks later finds it whole.
            own = self._windows or [band for _, _, band in self._bands]
            typed = [one.to(dtype) if one.is_floating_point() else one for one in own]
            self._copies[device, dtype] = [one.to(device) for one in typed]
        return self._copies[device, dtype]


def _multiplies_exactly() -> bool:
    """Whether products of float32 are computed in float32."""
    try:
        return torch.get_float32_matmul_precision() == "highest" and not torch.backends.cuda.matmul.allow_tf32
    except RuntimeError:
        # torch's older and newer switches contradict each other.
        return False


def transposed(grad: Tensor, maps: Sequence[LinearMap], like: Tensor) -> Tensor:
    """Return the gradient of maps along the last dimensions, one for each, in dtype and memory format of `like`."""
    result = widened(grad)
    # Maps that shrink the tensor come first.
    for back, linear in sorted(enumerate(reversed(maps), 1), key=lambda one: one[1].inputs / one[1].outputs):
        result = linear.transposed(result, result.dim() - back)
    return shaped(result, like)


@lru_cache(maxsize=256)
def means(windows: tuple[tuple[int, int, float], ...], inputs: int) -> LinearMap:
    """Return the map of means over windows, each given by its first input, the one after its last, and its divisor."""
    matrix = torch.zeros(len(windows), inputs, dtype=torch.float64, device="cpu")
    for row, (first, last, divisor) in zip(matrix, windows, strict=True):
        row[first:last] = 1 / divisor
    return LinearMap(matrix)


@lru_cache(maxsize=256)
def resampled(kind: Callable[..., Tensor], inputs: int, outputs: int, corners: bool, scale: float | None) -> LinearMap:
    """Return the map of a torch operation along one dimension, found by applying it to unit vectors in float64."""
    unit = torch.eye(inputs, dtype=torch.float64, device="cpu")
    if kind is torch.ops.aten.upsample_linear1d.default:
        return LinearMap(kind(unit[None], [outputs], corners, scale)[0].t().contiguous())
    # Along the last dimension: planes one element wide are resampled wrongly with antialias (torch 2.13).
    return LinearMap(kind(unit[None, :, None, :], [1, outputs], corners, None, scale)[0, :, 0, :].t().contiguous())


def forget() -> None:
    """Free the memory of the matrices that were made."""
    means.cache_clear()
    resampled.cache_clear()
