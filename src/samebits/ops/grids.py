"""The gradient of sampling at the points of a grid, in two or three dimensions.

Along each dimension, a point reads a few neighbours, each with a weight by its distance; the weight of a neighbour in
the plane is the product of these. The same taps give the gradient of the input, summed by key, and that of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from operator import mul

import torch
from torch import Tensor

from samebits.ops.sums import add_at, shaped, widened

_LINEAR, _NEAREST, _CUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)
# The parameter of Keys' cubic convolution, with torch's value.
_A = -0.75


@dataclass(frozen=True)
class Tap:
    """A neighbour that points read along one dimension: index, weight, and the weight's derivative by the grid, (N, P).

    Where the neighbour lies outside, weight and derivative are 0, and the index is an arbitrary one inside.
    """

    index: Tensor
    weight: Tensor
    slope: Tensor


def grid_sampler_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of the input and of the grid.

    Args:
        grad_output: (N, C, *sampled), floating.
        input: (N, C, *sizes), in two or three dimensions.
        grid: (N, *sampled, D), D positions from -1 to 1, of the last dimension first.
        interpolation_mode: 0 linear, 1 nearest, 2 cubic.
        padding_mode: 0 zeros, 1 border, 2 reflection.
        align_corners: whether -1 and 1 are the centres of the corner elements; else they are their outer edges.
        output_mask: whether each of the two gradients is needed.

    Returns:
        Gradients in the shapes and dtypes of `input` and `grid`, or None if not needed; float32 inside for half types.
    """
    count, channels, *sizes = input.shape
    grad, points = widened(grad_output).flatten(2), widened(grid).flatten(1, -2)
    taps = [
        _taps(points[..., -1 - dim], size, interpolation_mode, padding_mode, align_corners)
        for dim, size in enumerate(sizes)
    ]
    plane = torch.Size(sizes).numel()
    values = widened(input).reshape(count, channels, plane)
    first = torch.arange(count, device=input.device).mul_(plane).unsqueeze(1)
    rows = grad.transpose(1, 2).reshape(-1, channels)
    into = rows.new_zeros(count * plane, channels)
    slopes = [torch.zeros_like(points[..., 0]) for _ in sizes]
    for corner in product(*taps):
        index = torch.zeros_like(corner[0].index)
        for tap, size in zip(corner, sizes, strict=True):
            index = index * size + tap.index
        if output_mask[0]:
            weight = reduce(mul, [tap.weight for tap in corner])
            into += add_at(count * plane, (index + first).flatten(), rows * weight.reshape(-1, 1))
        if output_mask[1] and interpolation_mode != _NEAREST:
            along = _over_channels(values.gather(2, index.unsqueeze(1).expand(-1, channels, -1)) * grad)
            for dim, tap in enumerate(corner):
                others = [one.weight for number, one in enumerate(corner) if number != dim]
                slopes[dim] += along * reduce(mul, [tap.slope, *others])
    grad_input = into.view(count, plane, channels).transpose(1, 2).reshape(input.shape)
    grad_grid = torch.stack(slopes[::-1], -1).view(grid.shape).to(grid.dtype)
    return (shaped(grad_input, input) if output_mask[0] else None), (grad_grid if output_mask[1] else None)


def cudnn_grid_sampler_backward(self: Tensor, grid: Tensor, grad_output: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of sampling by cuDNN: linear, zeros outside, corners aligned."""
    return grid_sampler_backward(grad_output, self, grid, _LINEAR, _ZEROS, True, (True, True))


def _over_channels(x: Tensor) -> Tensor:
    """Return the sum along dimension 1, by adding halves: the order of additions in torch's own sum is not known."""
    while (size := x.shape[1]) > 1:
        halves = x[:, : size // 2] + x[:, size // 2 : size // 2 * 2]
        x = torch.cat([halves, x[:, -1:]], 1) if size % 2 else halves
    return x[:, 0]


def _taps(x: Tensor, size: int, mode: int, padding: int, corners: bool) -> list[Tap]:
    """Return the neighbours that points at `x`, (N, P), read along a dimension of `size` elements."""
    scale = (size - 1) / 2 if corners else size / 2
    at = (x + 1) * scale if corners else ((x + 1) * size - 1) / 2
    if mode == _CUBIC:
        base = at.floor()
        t = at - base
        near = ((_A + 2), -(_A + 3), 0.0, 1.0)
        far = (_A, -5 * _A, 8 * _A, -4 * _A)
        taps = []
        for step, distance, sign, (a, b, c, d) in (
            (-1, t + 1, 1, far),
            (0, t, 1, near),
            (1, 1 - t, -1, near),
            (2, 2 - t, -1, far),
        ):
            weight = ((a * distance + b) * distance + c) * distance + d
            slope = ((3 * a * distance + 2 * b) * distance + c) * (sign * scale)
            taps.append(_tap(_padded(base + step, size, padding, corners)[0], weight, slope, size))
        return taps
    at, factor = _padded(at, size, padding, corners)
    if mode == _NEAREST:
        return [_tap(at.round(), torch.ones_like(at), torch.zeros_like(at), size)]
    base, slope = at.floor(), factor * scale
    return [_tap(base, base + 1 - at, -slope, size), _tap(base + 1, at - base, slope, size)]


def _tap(at: Tensor, weight: Tensor, slope: Tensor, size: int) -> Tap:
    is_inside = (at >= 0) & (at <= size - 1)
    index = at.where(is_inside, 0).long()
    return Tap(index, weight.where(is_inside, 0), slope.where(is_inside, 0))


def _padded(at: Tensor, size: int, padding: int, corners: bool) -> tuple[Tensor, Tensor]:
    """Return the position that is read in the place of `at` under the padding, and its derivative by `at`."""
    factor = torch.ones_like(at)
    if padding == _ZEROS:
        return at, factor
    if padding == _REFLECTION:
        low, span = (0.0, size - 1) if corners else (-0.5, size)
        if span == 0:
            return torch.zeros_like(at), torch.zeros_like(at)
        factor = factor.where(at >= low, -1)
        distance = (at - low).abs()
        extra, flips = distance.fmod(span), (distance / span).floor()
        is_even = flips.remainder(2) == 0
        at = torch.where(is_even, extra, span - extra) + low
        factor = factor.where(is_even, -factor)
    return at.clamp(0, size - 1), factor.where((at > 0) & (at < size - 1), 0)
