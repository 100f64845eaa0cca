"""Gradients of what is linear along each dimension: mean pools, resampling, pads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from samebits.ops.linear import means, resampled, transposed
from samebits.ops.sums import shaped, wide


def adaptive_avg_pool_backward(dims: int, grad_output: Tensor, self: Tensor) -> Tensor:
    """Every input gets the gradients of the windows that it is in, each divided by the window's size.

    Args:
        dims: of a plane, 2 or 3.
        grad_output: (*planes, *pooled), floating.
        self: (*planes, *whole); only its shape, dtype and memory format count.

    Returns:
        Of the shape, dtype and memory format of `self`.
    """
    maps = []
    for inputs, outputs in zip(self.shape[-dims:], grad_output.shape[-dims:], strict=True):
        bounds = [(o * inputs // outputs, -(-(o + 1) * inputs // outputs)) for o in range(outputs)]
        maps.append(means(tuple((first, last, float(last - first)) for first, last in bounds), inputs))
    return transposed(grad_output, maps, self)


def avg_pool3d_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """The same for windows of one size: (*planes, *pooled) → (*planes, *whole) of three dimensions, floating."""
    kernels, pads = _three(kernel_size), _three(padding)
    maps = []
    for back in (-3, -2, -1):
        inputs, kernel, pad = self.shape[back], kernels[back], pads[back]
        step = _three(stride or kernels)[back]
        windows = []
        for first in range(-pad, -pad + step * grad_output.shape[back], step):
            last = min(first + kernel, inputs + pad)
            inside = max(first, 0), max(min(last, inputs), 0)
            counted = last - first if count_include_pad else inside[1] - inside[0]
            windows.append((*inside, 1.0 if divisor_override else float(counted)))
        maps.append(means(tuple(windows), inputs))
    found = transposed(grad_output, maps, self)
    return found / divisor_override if divisor_override else found


def _three(sizes: Sequence[int]) -> Sequence[int]:
    return tuple(sizes) * 3 if len(sizes) == 1 else sizes


def upsample_backward(
    kind: Callable[..., Tensor],
    grad_output: Tensor,
    output_size: Sequence[int],
    input_size: Sequence[int],
    align_corners: bool,
    *scales: float | None,
) -> Tensor | None:
    """The gradient of resampling, which is linear along each dimension, with float64 weights.

    Args:
        kind: torch's operation along one dimension, which gives the weights.
        grad_output: (N, C, *output_size), floating.
        output_size: of a plane.
        input_size: (N, C, ...).
        align_corners: the centres of the corners lie upon one another.
        *scales: factors that were given instead of sizes, or None.

    Returns:
        `input_size`, of the dtype and memory format of `grad_output`.
    """
    given = (*scales, *(None for _ in output_size[len(scales) :]))
    sizes = list(zip(input_size[2:], output_size, given, strict=True))
    # With antialias, torch's forward for the CPU leaves a size alone that does not change, and its backward does not.
    if "_aa" in str(kind) and any(inputs == outputs and scale not in (None, 1) for inputs, outputs, scale in sizes):
        return None
    maps = [resampled(kind, inputs, outputs, align_corners, scale) for inputs, outputs, scale in sizes]
    return transposed(grad_output, maps, grad_output)


def pad_backward(
    gap: int, folded: Callable[[Tensor, int], Tensor], grad_output: Tensor, self: Tensor, padding: Sequence[int]
) -> Tensor | None:
    """What was mirrored over an edge, or repeated from it, comes back to where it was taken from.

    Args:
        gap: how far from the edge that begins.
        folded: makes of the gradient of a pad what is added there.
        grad_output: (..., *padded), any floating or complex dtype.
        self: (..., *whole); only its shape, dtype and memory format count.
        padding: before and after, of the last dimension first.

    Returns:
        Of the shape, dtype and memory format of `self`.
    """
    if min(padding) < 0:
        return None
    found = wide(grad_output)
    for number, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True), 1):
        dim = found.dim() - number
        size = found.shape[dim] - before - after
        core = found.narrow(dim, before, size).clone()
        if before:
            part = folded(found.narrow(dim, 0, before), dim)
            core.narrow(dim, gap, part.shape[dim]).add_(part)
        if after:
            part = folded(found.narrow(dim, before + size, after), dim)
            core.narrow(dim, size - gap - part.shape[dim], part.shape[dim]).add_(part)
        found = core
    return shaped(found, self)
