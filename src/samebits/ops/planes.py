"""Gradients of operations that are linear along each dimension: mean pooling, resampling, padding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from samebits.ops.linear import means, resampled, transposed
from samebits.ops.sums import shaped, widened


def adaptive_avg_pool_backward(dims: int, grad_output: Tensor, self: Tensor) -> Tensor:
    """Return the gradient of adaptive mean pooling: inputs get their windows' gradients, divided by the window's size.

    Args:
        dims: number of dimensions of a plane, 2 or 3.
        grad_output: (*planes, *pooled), floating.
        self: (*planes, *whole); only its shape, dtype and memory format count.

    Returns:
        A tensor of the shape, dtype and memory format of `self`.
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
    """Return the gradient of mean pooling by equal windows, 3-D: (*planes, *pooled), floating → (*planes, *whole)."""
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
    gradient = transposed(grad_output, maps, self)
    return gradient / divisor_override if divisor_override else gradient


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
    """Return the gradient of resampling, which is linear along each dimension, with float64 weights.

    Args:
        kind: torch's operation along one dimension, which gives the weights.
        grad_output: (N, C, *output_size), floating.
        output_size: size of a plane.
        input_size: (N, C, ...).
        align_corners: whether the centres of the corner elements lie upon one another.
        *scales: factors that were given instead of sizes, or None.

    Returns:
        A tensor of `input_size`, of the dtype and memory format of `grad_output`.
    """
    given = (*scales, *(None for _ in output_size[len(scales) :]))
    sizes = list(zip(input_size[2:], output_size, given, strict=True))
    # With antialias, torch's forward on the CPU skips a dimension whose size does not change; its backward does not.
    if "_aa" in str(kind) and any(inputs == outputs and scale not in (None, 1) for inputs, outputs, scale in sizes):
        return None
    maps = [resampled(kind, inputs, outputs, align_corners, scale) for inputs, outputs, scale in sizes]
    return transposed(grad_output, maps, grad_output)


def pad_backward(
    gap: int, folded: Callable[[Tensor, int], Tensor], grad_output: Tensor, self: Tensor, padding: Sequence[int]
) -> Tensor | None:
    """Return the gradient of padding by mirroring or repeating: that of a pad goes to the elements it was copied from.

    Args:
        gap: distance from the edge of the first element that was copied.
        folded: turns the gradient of a pad into what is added to the elements that were copied.
        grad_output: (..., *padded), any floating or complex dtype.
        self: (..., *whole); only its shape, dtype and memory format count.
        padding: sizes before and after, of the last dimension first.

    Returns:
        A tensor of the shape, dtype and memory format of `self`.
    """
    if min(padding) < 0:
        return None
    gradient = widened(grad_output)
    for number, (before, after) in enumerate(zip(padding[::2], padding[1::2], strict=True), 1):
        dim = gradient.dim() - number
        size = gradient.shape[dim] - before - after
        core = gradient.narrow(dim, before, size).clone()
        if before:
            part = folded(gradient.narrow(dim, 0, before), dim)
            core.narrow(dim, gap, part.shape[dim]).add_(part)
        if after:
            part = folded(gradient.narrow(dim, before + size, after), dim)
            core.narrow(dim, size - gap - part.shape[dim], part.shape[dim]).add_(part)
        gradient = core
    return shaped(gradient, self)
