"""Operations that read or write by index: max pools and their inverse, reductions by key, bags, bins, medians."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from samebits.ops.sums import add_at, shaped, widened

_BAG_MAX = 2


def max_pool_backward(dims: int, grad_output: Tensor, self: Tensor, *arguments: object) -> Tensor:
    """Return the gradient of max pooling: the maximum of each window gets the window's gradient.

    Args:
        dims: number of dimensions of a plane, 2 or 3.
        grad_output: (*planes, *pooled), floating.
        self: (*planes, *whole); only its shape, dtype and memory format count.
        arguments: sizes of windows, then (*planes, *pooled), int64: the place of each maximum in its plane.

    Returns:
        A tensor of the shape, dtype and memory format of `self`; added up in float32 for half types.
    """
    indices = arguments[-1]
    assert isinstance(indices, Tensor)
    place, planes = self.shape[-dims:].numel(), self.shape[:-dims].numel()
    first = torch.arange(planes, device=indices.device).mul_(place).unsqueeze(1)
    keys = indices.reshape(planes, -1) + first
    sums = add_at(planes * place, keys.flatten(), widened(grad_output).flatten())
    return shaped(sums.view(self.shape), self)


def max_unpool(dims: int, self: Tensor, indices: Tensor, output_size: Sequence[int], *sizes: object) -> Tensor | None:
    """Put each value at its place in a plane of zeros; of several for one place, the one that torch puts last counts.

    Args:
        dims: number of dimensions of a plane, 2 or 3.
        self: (*planes, *pooled), floating.
        indices: (*planes, *pooled), int64.
        output_size: size of a plane.
        sizes: stride and padding, which do not affect the result.

    Returns:
        A tensor (*planes, *output_size) of the dtype of `self`.
    """
    planes, pooled, place = self.shape[:-dims].numel(), self.shape[-dims:].numel(), torch.Size(output_size).numel()
    is_ours = self.is_floating_point() and indices.dtype == torch.int64 and pooled > 0
    if not is_ours or self.shape != indices.shape or len(output_size) != dims or not _are_inside(indices, place):
        return None
    unpooled = self.new_zeros(planes, place)
    rows = torch.arange(planes, device=self.device).unsqueeze(1)
    unpooled.index_put_((rows, indices.reshape(planes, pooled)), self.reshape(planes, pooled))
    return shaped(unpooled.view(*self.shape[:-dims], *output_size), self)


def _are_inside(indices: Tensor, size: int) -> bool:
    """Whether indices count from 0 and are less than `size`; else torch says so. CUDA says so later, as for torch."""
    is_inside = ((indices >= 0) & (indices < size)).all()
    if indices.is_cuda:
        torch._assert_async(is_inside)
        return True
    return bool(is_inside)


def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor | None:
    """Return a copy of `self`, seen as one row, with the source put or added at the indices, element by element."""
    if index.numel() != source.numel() or source.dtype != self.dtype or index.dtype != torch.int64:
        return None
    copy = self.clone(memory_format=torch.contiguous_format)
    copy.view(-1).index_put_((index.flatten(),), source.flatten(), accumulate)
    return copy


def scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor | None:
    """Return, for each place of `self`, the product of its value and those that `src` has for it, in their order.

    Args:
        self: any shape, floating.
        dim: the dimension along which `index` counts.
        index: int64, in no dimension longer than `src`, and except along `dim` not longer than `self`.
        src: a tensor of the dtype of `self`.
        reduce: `prod`; all others are left to torch, which does not race there.
        include_self: whether the value in `self` is a factor, too.
    """
    if reduce != "prod" or not _is_simple(self, index, src):
        return None
    places = torch.arange(self.numel(), device=self.device).view(self.shape)
    keys = places.gather(dim, index).flatten()
    values = src[tuple(slice(size) for size in index.shape)].flatten()
    products, counts = _products(self.numel(), keys, values.unsqueeze(1))
    return _with_self(self, products.view(self.shape), counts.view(self.shape), include_self)


def _is_simple(self: Tensor, index: Tensor, src: Tensor) -> bool:
    """Whether `self` and `src` are floats of one dtype, and all have as many dimensions; else torch has to compute."""
    return self.is_floating_point() and src.dtype == self.dtype and 0 < index.dim() == self.dim() == src.dim()


def _products(size: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the product of the rows of each key, in their order, (size, D), and the number of rows, (size, 1)."""
    order = keys.argsort(stable=True)
    bounds = torch.searchsorted(keys[order], torch.arange(size + 1, device=keys.device))
    products = torch.segment_reduce(widened(values)[order], "prod", offsets=bounds, unsafe=True, initial=1)
    return products, bounds.diff().unsqueeze(1)


def _with_self(self: Tensor, found: Tensor, counts: Tensor, include_self: bool) -> Tensor:
    return torch.where(counts > 0, (found * self if include_self else found).to(self.dtype), self)


def scatter_multiply(self: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor | None:
    """Compute the product of `scatter_reduce` under its older name, `multiply`; `add` is left to torch."""
    return scatter_reduce(self, dim, index, src, "prod") if reduce == "multiply" else None


def scatter_multiply_by(self: Tensor, dim: int, index: Tensor, value: float, *, reduce: str) -> Tensor | None:
    """Compute `scatter_multiply` with one number in the place of `src`."""
    return scatter_multiply(self, dim, index, self.new_full(index.shape, value), reduce=reduce)


def index_reduce(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor | None:
    """Reduce slices of `source` into those slices of `self` that `index` names, in the order of `source`.

    Args:
        self: any shape, floating; other dtypes are left to torch.
        dim: the dimension along which the slices lie.
        index: (M), int64.
        source: shaped like `self`, but of size M along `dim`.
        reduce: `prod`, `mean`, `amax` or `amin`.
        include_self: whether the values in `self` count, too.
    """
    if index.dim() != 1 or self.dim() == 0 or source.dim() != self.dim() or source.shape[dim] != index.numel():
        return None
    alone = [1] * self.dim()
    alone[dim] = -1
    places = index.view(alone).expand_as(source)
    if not _is_simple(self, places, source) or not _are_inside(index, self.shape[dim]):
        return None
    if reduce in ("amax", "amin"):
        return self.scatter_reduce(dim, places, source, reduce, include_self=include_self)
    rows, target = (one.movedim(dim, 0) for one in (source, self))
    size, shape = target.shape[0], target.shape
    rows, target = (one.reshape(one.shape[0], shape[1:].numel()) for one in (rows, target))
    if reduce == "prod":
        reduced, counts = _products(size, index, rows)
    else:
        counts = add_at(size, index, torch.ones_like(index, dtype=torch.int64)).unsqueeze(1)
        reduced = add_at(size, index, widened(rows))
        reduced = (reduced + widened(target)) / (counts + 1) if include_self else reduced / counts.clamp(min=1)
    result = _with_self(target, reduced, counts, include_self and reduce == "prod")
    return result.view(shape).movedim(0, dim).contiguous()


def sparse_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor | None:
    """Return `beta * self + alpha * mat1 @ mat2`, adding elements of each row of `mat1` in the order they are stored.

    Args:
        self: (M, N), or a shape that expands to it; dense.
        mat1: (M, K), sparse in coordinates (COO) or in compressed rows (CSR); other layouts are left to torch.
        mat2: (K, N), dense; all of one floating dtype. Memory is needed for a row of N for each element of `mat1`.
        beta: factor of `self`; if it is 0, nothing in `self` counts.
        alpha: factor of the product.
    """
    if mat1.layout not in (torch.sparse_coo, torch.sparse_csr) or not (self.layout is mat2.layout is torch.strided):
        return None
    if (
        mat1.dim() != 2
        or mat1.dense_dim()
        or not mat1.is_floating_point()
        or not mat1.dtype == mat2.dtype == self.dtype
    ):
        return None
    coordinates = mat1.to_sparse_coo()  # type: ignore[no-untyped-call]
    rows, columns = coordinates._indices()
    values = widened(coordinates._values()).unsqueeze(1) * widened(mat2)[columns]
    product = add_at(mat1.shape[0], rows, values) * alpha
    return (product if beta == 0 else product + widened(self) * beta).to(self.dtype)


def sparse_mm(self: Tensor, mat2: Tensor) -> Tensor | None:
    """Return `self @ mat2`, computed by `sparse_addmm`."""
    return sparse_addmm(mat2.new_zeros(1), self, mat2, beta=0)


def embedding_bag_backward(
    grad: Tensor,
    indices: Tensor,
    offset2bag: Tensor,
    bag_size: Tensor,
    maximum_indices: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor | None:
    """Return the gradient of the embedding table for bags that take the maximum; sums and means are left to torch.

    `grad` is (B, D), the result (num_weights, D). `maximum_indices`, (B, D), has the row that each element of a bag is
    from. Bags that are empty, by `bag_size`, contribute nothing.
    """
    if mode != _BAG_MAX:
        return None
    width = grad.shape[1]
    is_there = (bag_size > 0).unsqueeze(1) & (maximum_indices >= 0)
    columns = torch.arange(width, device=grad.device)
    keys = maximum_indices.where(is_there, 0).long() * width + columns
    values = widened(grad).where(is_there, 0)
    return add_at(num_weights * width, keys.flatten(), values.flatten()).view(num_weights, width).to(grad.dtype)


def bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor | None:
    """Sum the weights, (M), of each whole number from 0 in `self`, (M): float32 weights in float32, others in float64.

    Without weights, torch's own kernel computes, and does not race.
    """
    if weights is None or self.dim() != 1 or self.numel() == 0 or self.shape != weights.shape or minlength < 0:
        return None
    low, high = (int(one) for one in self.aminmax())
    if self.is_floating_point() or low < 0:
        return None
    values = weights if weights.dtype == torch.float32 else weights.double()
    return add_at(max(high + 1, minlength), self.long(), values)


def histc(self: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor | None:
    """Count the elements in each of `bins` equal parts of [min, max], as whole numbers.

    Args:
        self: any shape, floating; other dtypes are left to torch.
        bins: number of parts.
        min: where the first part begins; if `max` is the same, at the smallest element.
        max: where the last part ends; if `min` is the same, at the largest element.

    Returns:
        A tensor (bins) of the dtype of `self`.
    """
    if not self.is_floating_point() or bins <= 0 or self.numel() == 0:
        return None
    low, high = (torch.tensor(float(one), dtype=self.dtype, device=self.device) for one in (min, max))
    if min == max:
        low, high = self.aminmax()
        is_single = low == high
        low, high = low - is_single.to(self.dtype), high + is_single.to(self.dtype)
    if not bool((low <= high) & low.isfinite() & high.isfinite()):
        return None
    x = self.flatten()
    is_inside = (x >= low) & (x <= high)
    bin_index = ((x - low) * bins / (high - low)).where(is_inside, 0).long().clamp(max=bins - 1)
    return add_at(bins, bin_index, is_inside.long()).to(self.dtype)


def median(skips_nan: bool, self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor] | None:
    """Return the lower median along a dimension, and the index of the first element of that value.

    Args:
        skips_nan: whether NaN are left out, so that the median is NaN only if all are; else it is NaN if one is.
        self: any shape with elements along `dim`, any real dtype.
        dim: the dimension along which the elements lie.
        keepdim: whether the result keeps that dimension, with one element.

    Returns:
        Values of the dtype of `self`, and indices, int64.
    """
    if self.dim() == 0 or self.numel() == 0:
        return None
    # The sort is stable, and puts NaN last.
    values, places = self.sort(dim=dim, stable=True)
    size = self.shape[dim]
    is_nan = values.isnan()
    counted = size - is_nan.sum(dim, keepdim=True)
    middle = ((counted - 1) // 2).clamp(min=0)
    if not skips_nan:
        middle = torch.where(counted < size, counted, middle)
    # The first element of this value, wherever the middle lies among equal ones.
    chosen = values.gather(dim, middle)
    is_same = (values == chosen) | (is_nan & chosen.isnan())
    first = is_same.to(torch.uint8).argmax(dim, keepdim=True)
    result = chosen, places.gather(dim, first)
    return result if keepdim else (result[0].squeeze(dim), result[1].squeeze(dim))
