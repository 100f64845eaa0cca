"""What reads or writes by index: maximum pools and their inverse, reductions by key, bags, bins, medians."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from samebits.ops.sums import add_at, at_planes, shaped, wide

_BAG_MAX = 2


def max_pool_backward(dims: int, grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
    """The maximum of each window gets the window's gradient.

    Args:
        dims: of a plane, 2 or 3.
        grad_output: (*planes, *pooled), floating.
        self: (*planes, *whole); only its shape, dtype and memory format count.
        indices: (*planes, *pooled), int64: where in its plane each maximum is.

    Returns:
        Of the shape, dtype and memory format of `self`; added up in float32 for half types.
    """
    return at_planes(grad_output, indices, self, dims)


def max_pool3d_backward(grad_output: Tensor, self: Tensor, *arguments: object) -> Tensor:
    """The same; the indices come last, after the sizes of the window."""
    indices = arguments[-1]
    assert isinstance(indices, Tensor)
    return at_planes(grad_output, indices, self, 3)


def max_unpool(dims: int, self: Tensor, indices: Tensor, output_size: Sequence[int], *sizes: object) -> Tensor:
    """Zeros, and each value at its place in its plane; of several for one place, the one that torch puts last.

    Args:
        dims: of a plane, 2 or 3.
        self: (*planes, *pooled), any dtype.
        indices: (*planes, *pooled), int64.
        output_size: of a plane.
        sizes: stride and padding, which say nothing about the result.

    Returns:
        (*planes, *output_size) of the dtype of `self`.

    Raises:
        IndexError, RuntimeError: an index lies outside its plane.
    """
    if self.shape != indices.shape or self.numel() == 0 or len(output_size) != dims:
        return NotImplemented
    planes = self.shape[:-dims].numel()
    found = self.new_zeros(planes, torch.Size(output_size).numel())
    rows = torch.arange(planes, device=self.device).unsqueeze(1)
    found.index_put_((rows, indices.reshape(planes, -1)), self.reshape(planes, -1))
    return shaped(found.view(*self.shape[:-dims], *output_size), self)


def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `self`, seen as one row, with the source put or added at the indices.

    Args:
        self: any shape and dtype.
        index: int64, any shape.
        source: as many elements as `index`, of the dtype of `self`.
    """
    if index.numel() != source.numel() or source.dtype != self.dtype or index.dtype != torch.int64:
        return NotImplemented
    found = self.clone(memory_format=torch.contiguous_format)
    found.view(-1).index_put_((index.flatten(),), source.flatten(), accumulate)
    return found


def scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """The product at each place of `self` and of what `src` has for it, in the order of `src`.

    Args:
        self: any shape, floating.
        dim: along which `index` counts.
        index: int64, in no dimension longer than `src`, nor but for `dim` than `self`.
        src: of the dtype of `self`.
        reduce: `prod`; all others are left to torch, which does not race there.
        include_self: what is in `self` is a factor, too.
    """
    if reduce != "prod" or not _is_simple(self, index, src):
        return NotImplemented
    places = torch.arange(self.numel(), device=self.device).view(self.shape)
    keys = places.gather(dim, index).flatten()
    values = src[tuple(slice(size) for size in index.shape)].flatten()
    found, counts = _products(self.numel(), keys, values.unsqueeze(1))
    return _with_self(self, found.view(self.shape), counts.view(self.shape), include_self)


def _is_simple(self: Tensor, index: Tensor, src: Tensor) -> bool:
    """What is none of this is answered, or refused, by torch."""
    return self.is_floating_point() and src.dtype == self.dtype and 0 < index.dim() == self.dim() == src.dim()


def _products(size: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The product of the rows of each key as they follow one another, and how many there are: (size, D) and (size, 1)."""
    order = keys.argsort(stable=True)
    bounds = torch.searchsorted(keys[order], torch.arange(size + 1, device=keys.device))
    found = torch.segment_reduce(wide(values)[order], "prod", offsets=bounds, unsafe=True, initial=1)
    return found, bounds.diff().unsqueeze(1)


def _with_self(self: Tensor, found: Tensor, counts: Tensor, include_self: bool) -> Tensor:
    return torch.where(counts > 0, (found * self if include_self else found).to(self.dtype), self)


def scatter_multiply(self: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor:
    """`scatter_reduce` as it was called before: `multiply`; `add` is left to torch."""
    return scatter_reduce(self, dim, index, src, "prod") if reduce == "multiply" else NotImplemented


def scatter_multiply_by(self: Tensor, dim: int, index: Tensor, value: float, *, reduce: str) -> Tensor:
    """The same with one number for all places."""
    return scatter_multiply(self, dim, index, self.new_full(index.shape, value), reduce=reduce)


def index_reduce(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Slices of `source` reduced into those slices of `self` that `index` names, in the order of `source`.

    Args:
        self: any shape, floating; other dtypes are left to torch.
        dim: along which the slices lie.
        index: (M), int64.
        source: like `self`, but M along `dim`.
        reduce: `prod`, `mean`, `amax` or `amin`.
        include_self: what is in `self` counts, too.
    """
    if self.dim() == 0 or index.dim() != 1 or not _is_simple(self, index.expand_as(source), source):
        return NotImplemented
    if reduce in ("amax", "amin"):
        shape = [1] * self.dim()
        shape[dim] = -1
        return self.scatter_reduce(dim, index.view(shape).expand_as(source), source, reduce, include_self=include_self)
    rows = source.movedim(dim, 0)
    size = self.shape[dim]
    if reduce == "prod":
        found, counts = _products(size, index, rows.flatten(1))
    else:
        counts = add_at(size, index, torch.ones_like(index, dtype=torch.int64)).unsqueeze(1)
        found = add_at(size, index, wide(rows).flatten(1))
        if include_self:
            found = (found + wide(self).movedim(dim, 0).flatten(1)) / (counts + 1)
        else:
            found = found / counts.clamp(min=1)
    own = self.movedim(dim, 0).flatten(1)
    result = _with_self(own, found, counts, include_self and reduce == "prod")
    return result.view(size, *rows.shape[1:]).movedim(0, dim).contiguous()
