"""What reads or writes by index: maximum pools and their inverse, reductions by key, bags, bins, medians."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from samebits.ops.sums import add_at, shaped, wide

_BAG_MAX = 2


def max_pool_backward(dims: int, grad_output: Tensor, self: Tensor, *arguments: object) -> Tensor:
    """The maximum of each window gets the window's gradient.

    Args:
        dims: of a plane, 2 or 3.
        grad_output: (*planes, *pooled), floating.
        self: (*planes, *whole); only its shape, dtype and memory format count.
        arguments: last (*planes, *pooled), int64: where in its plane each maximum is. Sizes of windows stand before it.

    Returns:
        Of the shape, dtype and memory format of `self`; added up in float32 for half types.
    """
    indices = arguments[-1]
    assert isinstance(indices, Tensor)
    place, planes = self.shape[-dims:].numel(), self.shape[:-dims].numel()
    first = torch.arange(planes, device=indices.device).mul_(place).unsqueeze(1)
    keys = indices.reshape(planes, -1) + first
    found = add_at(planes * place, keys.flatten(), wide(grad_output).flatten())
    return shaped(found.view(self.shape), self)


def max_unpool(dims: int, self: Tensor, indices: Tensor, output_size: Sequence[int], *sizes: object) -> Tensor | None:
    """Zeros, and each value at its place in its plane; of several for one place, the one that torch puts last.

    Args:
        dims: of a plane, 2 or 3.
        self: (*planes, *pooled), floating.
        indices: (*planes, *pooled), int64.
        output_size: of a plane.
        sizes: stride and padding, which say nothing about the result.

    Returns:
        (*planes, *output_size) of the dtype of `self`.

    Raises:
        IndexError, RuntimeError: an index lies outside its plane.
    """
    planes, pooled = self.shape[:-dims].numel(), self.shape[-dims:].numel()
    is_torchs = self.is_floating_point() and indices.dtype == torch.int64 and pooled > 0
    if not is_torchs or self.shape != indices.shape or len(output_size) != dims:
        return None
    found = self.new_zeros(planes, torch.Size(output_size).numel())
    rows = torch.arange(planes, device=self.device).unsqueeze(1)
    found.index_put_((rows, indices.reshape(planes, pooled)), self.reshape(planes, pooled))
    return shaped(found.view(*self.shape[:-dims], *output_size), self)


def put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor | None:
    """A copy of `self`, seen as one row, with the source put or added at the indices, element by element."""
    if index.numel() != source.numel() or source.dtype != self.dtype or index.dtype != torch.int64:
        return None
    found = self.clone(memory_format=torch.contiguous_format)
    found.view(-1).index_put_((index.flatten(),), source.flatten(), accumulate)
    return found


def scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor | None:
    """The product at each place of `self` and of what `src` has for it, in the order of `src`.

    Args:
        self: any shape, floating.
        dim: along which `index` counts.
        index: int64, in no dimension longer than `src`, and except along `dim` not longer than `self`.
        src: of the dtype of `self`.
        reduce: `prod`; all others are left to torch, which does not race there.
        include_self: what is in `self` is a factor, too.
    """
    if reduce != "prod" or not _is_simple(self, index, src):
        return None
    places = torch.arange(self.numel(), device=self.device).view(self.shape)
    keys = places.gather(dim, index).flatten()
    values = src[tuple(slice(size) for size in index.shape)].flatten()
    found, counts = _products(self.numel(), keys, values.unsqueeze(1))
    return _with_self(self, found.view(self.shape), counts.view(self.shape), include_self)


def _is_simple(self: Tensor, index: Tensor, src: Tensor) -> bool:
    """Whether all are floats of one dtype with as many dimensions; torch answers or refuses the rest."""
    return self.is_floating_point() and src.dtype == self.dtype and 0 < index.dim() == self.dim() == src.dim()


def _products(size: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """The product of the rows of each key, in their order, (size, D), and how many there are, (size, 1)."""
    order = keys.argsort(stable=True)
    bounds = torch.searchsorted(keys[order], torch.arange(size + 1, device=keys.device))
    found = torch.segment_reduce(wide(values)[order], "prod", offsets=bounds, unsafe=True, initial=1)
    return found, bounds.diff().unsqueeze(1)


def _with_self(self: Tensor, found: Tensor, counts: Tensor, include_self: bool) -> Tensor:
    return torch.where(counts > 0, (found * self if include_self else found).to(self.dtype), self)


def scatter_multiply(self: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str) -> Tensor | None:
    """`scatter_reduce` as it was called before: `multiply`; `add` is left to torch."""
    return scatter_reduce(self, dim, index, src, "prod") if reduce == "multiply" else None


def scatter_multiply_by(self: Tensor, dim: int, index: Tensor, value: float, *, reduce: str) -> Tensor | None:
    """The same with one number for all places."""
    return scatter_multiply(self, dim, index, self.new_full(index.shape, value), reduce=reduce)


def index_reduce(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor | None:
    """Slices of `source` reduced into those slices of `self` that `index` names, in the order of `source`.

    Args:
        self: any shape, floating; other dtypes are left to torch.
        dim: along which the slices lie.
        index: (M), int64.
        source: like `self`, but M along `dim`.
        reduce: `prod`, `mean`, `amax` or `amin`.
        include_self: what is in `self` counts, too.
    """
    if index.dim() != 1 or self.dim() == 0 or source.dim() != self.dim() or source.shape[dim] != index.numel():
        return None
    alone = [1] * self.dim()
    alone[dim] = -1
    places = index.view(alone).expand_as(source)
    if not _is_simple(self, places, source):
        return None
    if reduce in ("amax", "amin"):
        return self.scatter_reduce(dim, places, source, reduce, include_self=include_self)
    rows, own = (one.movedim(dim, 0) for one in (source, self))
    size, shape = own.shape[0], own.shape
    rows, own = (one.reshape(one.shape[0], shape[1:].numel()) for one in (rows, own))
    if reduce == "prod":
        found, counts = _products(size, index, rows)
    else:
        counts = add_at(size, index, torch.ones_like(index, dtype=torch.int64)).unsqueeze(1)
        found = add_at(size, index, wide(rows))
        found = (found + wide(own)) / (counts + 1) if include_self else found / counts.clamp(min=1)
    result = _with_self(own, found, counts, include_self and reduce == "prod")
    return result.view(shape).movedim(0, dim).contiguous()


def sparse_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor | None:
    """`beta * self + alpha * mat1 @ mat2`, the elements of each row of `mat1` in the order in which they are stored.

    Args:
        self: (M, N), or what expands to it; dense.
        mat1: (M, K), sparse in coordinates or in compressed rows; other layouts are left to torch.
        mat2: (K, N), dense; all of one floating dtype. As many rows of N elements are held as `mat1` has elements.
        beta: where it is 0, nothing of `self` counts.
        alpha: of the product.
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
    given = mat1.to_sparse_coo()  # type: ignore[no-untyped-call]
    rows, columns = given._indices()
    values = wide(given._values()).unsqueeze(1) * wide(mat2)[columns]
    found = add_at(mat1.shape[0], rows, values) * alpha
    return (found if beta == 0 else found + wide(self) * beta).to(self.dtype)


def sparse_mm(self: Tensor, mat2: Tensor) -> Tensor | None:
    """`self @ mat2`, as `sparse_addmm`."""
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
    """The gradient of the table for bags of which the maximum counts; torch answers for sums and means.

    Of `grad`, (B, D), it is (num_weights, D), by `maximum_indices`, (B, D): the row that each element of a bag is from.
    An empty bag, by `bag_size`, has none.
    """
    if mode != _BAG_MAX:
        return None
    width = grad.shape[1]
    is_there = (bag_size > 0).unsqueeze(1) & (maximum_indices >= 0)
    columns = torch.arange(width, device=grad.device)
    keys = maximum_indices.where(is_there, 0).long() * width + columns
    values = wide(grad).where(is_there, 0)
    return add_at(num_weights * width, keys.flatten(), values.flatten()).view(num_weights, width).to(grad.dtype)


def bincount(self: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor | None:
    """The weights, (M), of each of the whole numbers from 0 in `self`, (M), added up in float32 or else in float64.

    Without weights torch's kernel does not race.
    """
    if weights is None or self.dim() != 1 or self.numel() == 0 or self.shape != weights.shape or minlength < 0:
        return None
    least, most = (int(one) for one in self.aminmax())
    if self.is_floating_point() or least < 0:
        return None
    values = weights if weights.dtype == torch.float32 else weights.double()
    return add_at(max(most + 1, minlength), self.long(), values)


def histc(self: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor | None:
    """How many elements lie in each of `bins` equal parts of [min, max], counted as whole numbers.

    Args:
        self: any shape, floating; others are left to torch.
        bins: number of parts.
        min: where the first begins; the smallest element where `max` is the same.
        max: where the last ends; the largest element where `min` is the same.

    Returns:
        (bins) of the dtype of `self`.
    """
    if not self.is_floating_point() or bins <= 0 or self.numel() == 0:
        return None
    low, high = (torch.tensor(float(one), dtype=self.dtype, device=self.device) for one in (min, max))
    if min == max:
        low, high = self.aminmax()
        is_one = low == high
        low, high = low - is_one.to(self.dtype), high + is_one.to(self.dtype)
    if not bool((low <= high) & low.isfinite() & high.isfinite()):
        return None
    x = self.flatten()
    is_inside = (x >= low) & (x <= high)
    place = ((x - low) * bins / (high - low)).where(is_inside, 0).long().clamp(max=bins - 1)
    return add_at(bins, place, is_inside.long()).to(self.dtype)


def median(skips_nan: bool, self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor] | None:
    """The lower median along a dimension, and of several elements of that value the first; NaN where there is one.

    Args:
        skips_nan: of what is not NaN; NaN where nothing else is.
        self: any shape with elements along `dim`, any real dtype.
        dim: along which the elements lie.
        keepdim: the result keeps that dimension, with one element.

    Returns:
        Values of the dtype of `self`, and indices, int64.
    """
    if self.dim() == 0 or self.numel() == 0:
        return None
    # Stable, and NaN comes last.
    values, places = self.sort(dim=dim, stable=True)
    size = self.shape[dim]
    is_nan = values.isnan()
    counted = size - is_nan.sum(dim, keepdim=True)
    middle = ((counted - 1) // 2).clamp(min=0)
    if not skips_nan:
        middle = torch.where(counted < size, counted, middle)
    # The first of its value, wherever the middle lies among them.
    chosen = values.gather(dim, middle)
    is_same = (values == chosen) | (is_nan & chosen.isnan())
    first = is_same.to(torch.uint8).argmax(dim, keepdim=True)
    found = chosen, places.gather(dim, first)
    return found if keepdim else (found[0].squeeze(dim), found[1].squeeze(dim))
