"""Calls of every operation that is replaced, by the public functions that users call."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor
from torch.nn import functional

from samebits.ops import overrides
from samebits.ops.table import TABLE


@dataclass(frozen=True)
class Case:
    """One call.

    Attributes:
        op: that is replaced.
        call: of tensors that want gradients; returns one tensor.
        shapes: of these.
        wants_gradient: the operation can be differentiated, or is called by a backward.
        twice: torch differentiates the gradient, too.
    """

    op: str
    call: Callable[..., Tensor]
    shapes: tuple[tuple[int, ...], ...]
    wants_gradient: bool = True
    twice: bool = True


def _numbers(count: int, most: int, seed: int = 5) -> Tensor:
    return torch.randint(0, most, (count,), generator=torch.Generator().manual_seed(seed))


def _like(index: Tensor, x: Tensor) -> Tensor:
    return index.to(x.device)


def _nll(x: Tensor, **options: object) -> Tensor:
    target = _like(_numbers(x[:, 0].numel(), x.shape[1]).view(x[:, 0].shape), x)
    return functional.nll_loss(x, target, **options)  # type: ignore[arg-type]


def _cross_entropy(x: Tensor) -> Tensor:
    target = _like(_numbers(x[:, 0].numel(), x.shape[1]).view(x[:, 0].shape), x)
    return functional.cross_entropy(x, target, label_smoothing=0.1, ignore_index=1)


def _resized(size: object, mode: str, **options: object) -> Callable[[Tensor], Tensor]:
    def call(x: Tensor) -> Tensor:
        key = "scale_factor" if isinstance(size, float) else "size"
        return functional.interpolate(x, mode=mode, **{key: size}, **options)  # type: ignore[arg-type]

    return call


def _sampled(mode: str, padding: str, corners: bool) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, grid: functional.grid_sample(x, grid * 0.7, mode, padding, corners)


def _ctc(is_flat: bool, zero: bool = False) -> Callable[[Tensor], Tensor]:
    def call(x: Tensor) -> Tensor:
        sizes, lengths = [3, 5, 0, 4], [12, 11, 7, 12 if zero else 9]
        rows = [_numbers(5, 4, seed) + 1 for seed in range(4)]
        rows[1][1] = rows[1][0]
        if zero:
            lengths[1] = 3
        targets = (
            torch.cat([row[:size] for row, size in zip(rows, sizes, strict=True)]) if is_flat else torch.stack(rows)
        )
        log_probs = x.log_softmax(2)
        return functional.ctc_loss(log_probs, _like(targets, x), lengths, sizes, 0, "none", zero)

    return call


def _bag(x: Tensor) -> Tensor:
    # Called by the backward of `functional.embedding_bag`, which is a single kernel on the stand-in.
    index, bags, sizes = _numbers(12, 6), torch.tensor([0] * 3 + [2] * 6 + [3] * 3), torch.tensor([3, 0, 6, 3])
    given = (_like(one, x) for one in (index, bags, sizes, _numbers(x.numel(), 6).view(x.shape)))
    return torch.ops.aten._embedding_bag_dense_backward(x, *given, 6, False, 2, None)


def _fractional2(x: Tensor) -> Tensor:
    samples = torch.full((*x.shape[:2], 2), 0.4, dtype=x.dtype).to(x.device)
    return functional.fractional_max_pool2d(x, 3, output_size=(5, 4), _random_samples=samples)


def _fractional3(x: Tensor) -> Tensor:
    samples = torch.full((*x.shape[:2], 3), 0.4, dtype=x.dtype).to(x.device)
    return functional.fractional_max_pool3d(x, 3, output_size=(3, 4, 3), _random_samples=samples)


def _unpool2(x: Tensor) -> Tensor:
    base = torch.arange(x.numel()).view(x.shape) * 5 % 64
    return functional.max_unpool2d(x, _like(base, x), 2, output_size=(8, 8))


def _unpool3(x: Tensor) -> Tensor:
    base = torch.arange(x.numel()).view(x.shape) * 5 % 64
    return functional.max_unpool3d(x, _like(base, x), 2, output_size=(4, 4, 4))


def _scattered(x: Tensor, src: Tensor) -> Tensor:
    index = _like(_numbers(src.numel(), x.shape[0]).view(src.shape), x)
    return x.scatter_reduce(0, index, src, "prod", include_self=False)


def _reduced(how: str, include: bool) -> Callable[[Tensor, Tensor], Tensor]:
    def call(x: Tensor, src: Tensor) -> Tensor:
        return x.index_reduce(1, _like(_numbers(src.shape[1], x.shape[1]), x), src, how, include_self=include)

    return call


def _multiplied(x: Tensor, src: Tensor) -> Tensor:
    index = _like(_numbers(src.numel(), x.shape[1]).view(src.shape), x)
    with torch.no_grad():
        return x.scatter(1, index, src, reduce="multiply") + x.scatter(1, index, 0.5, reduce="multiply")


def _sparse(x: Tensor, y: Tensor) -> Tensor:
    return torch.sparse.mm((x * (x > 0)).to_sparse(), y)


def _rows(x: Tensor, y: Tensor) -> Tensor:
    return torch.addmm(x[:, :5], (x * (x > 0)).to_sparse_csr(), y, beta=0.5, alpha=2)


CASES = {
    "nll sum": Case("nll_loss2d_forward", lambda x: _nll(x, reduction="sum"), ((2, 5, 30, 31),)),
    "nll mean": Case(
        "nll_loss2d_forward", lambda x: _nll(x, weight=_like(torch.arange(5) + 0.5, x).to(x.dtype)), ((2, 5, 30, 31),)
    ),
    "nll 3d": Case("nll_loss2d_forward", _cross_entropy, ((2, 4, 9),)),
    "avg 1d": Case("_adaptive_avg_pool2d_backward", lambda x: functional.adaptive_avg_pool1d(x, 5), ((2, 3, 17),)),
    "avg 2d": Case(
        "_adaptive_avg_pool2d_backward", lambda x: functional.adaptive_avg_pool2d(x, (5, 7)), ((2, 3, 17, 21),)
    ),
    "avg 2d unbatched": Case(
        "_adaptive_avg_pool2d_backward", lambda x: functional.adaptive_avg_pool2d(x, (3, 30)), ((3, 9, 21),)
    ),
    "avg 3d": Case(
        "_adaptive_avg_pool3d_backward", lambda x: functional.adaptive_avg_pool3d(x, (2, 3, 4)), ((2, 3, 5, 6, 7),)
    ),
    "area": Case("_adaptive_avg_pool2d_backward", _resized((7, 5), "area"), ((1, 2, 18, 11),)),
    "max 1d": Case("adaptive_max_pool2d_backward", lambda x: functional.adaptive_max_pool1d(x, 5), ((2, 3, 17),)),
    "max 2d": Case(
        "adaptive_max_pool2d_backward", lambda x: functional.adaptive_max_pool2d(x, (5, 7)), ((2, 3, 17, 21),)
    ),
    "max 3d": Case(
        "adaptive_max_pool3d_backward", lambda x: functional.adaptive_max_pool3d(x, (2, 3, 4)), ((2, 3, 5, 6, 7),)
    ),
    "linear": Case("upsample_linear1d_backward", _resized(23, "linear"), ((2, 3, 9),)),
    "bilinear": Case("upsample_bilinear2d_backward", _resized((50, 23), "bilinear"), ((2, 3, 20, 9),)),
    "bilinear corners": Case(
        "upsample_bilinear2d_backward", _resized((11, 40), "bilinear", align_corners=True), ((2, 3, 20, 9),)
    ),
    "bilinear by factor": Case("upsample_bilinear2d_backward", _resized(1.7, "bilinear"), ((2, 3, 10, 9),)),
    "trilinear": Case("upsample_trilinear3d_backward", _resized((9, 10, 5), "trilinear"), ((2, 3, 4, 5, 6),)),
    "bicubic": Case("upsample_bicubic2d_backward", _resized((25, 13), "bicubic"), ((2, 3, 10, 9),)),
    "bicubic corners": Case(
        "upsample_bicubic2d_backward", _resized((25, 1), "bicubic", align_corners=True), ((2, 3, 10, 9),)
    ),
    "bilinear smooth": Case(
        "_upsample_bilinear2d_aa_backward", _resized((7, 13), "bilinear", antialias=True), ((2, 3, 20, 9),)
    ),
    "bicubic smooth": Case(
        "_upsample_bicubic2d_aa_backward", _resized((7, 13), "bicubic", antialias=True), ((2, 3, 20, 9),)
    ),
    "scatter prod": Case("scatter_reduce.two", _scattered, ((5, 4), (30, 4)), twice=False),
    "scatter multiply": Case("scatter.reduce", _multiplied, ((4, 5), (4, 30)), wants_gradient=False),
    **{
        f"index {how} {include}": Case(
            "index_reduce", _reduced(how, include), ((3, 6, 4), (3, 40, 4)), twice=False, wants_gradient=how != "prod"
        )
        for how, include in product(("prod", "mean", "amax", "amin"), (True, False))
    },
    **{
        f"grid {mode} {padding} {corners}": Case(
            "grid_sampler_2d_backward", _sampled(mode, padding, corners), ((2, 3, 6, 7), (2, 9, 10, 2)), twice=False
        )
        for mode, padding, corners in product(
            ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (True, False)
        )
    },
    **{
        f"grid 3d {mode} {padding}": Case(
            "grid_sampler_3d_backward", _sampled(mode, padding, False), ((2, 3, 4, 5, 6), (2, 3, 9, 5, 3)), twice=False
        )
        for mode, padding in product(("bilinear", "nearest"), ("zeros", "border", "reflection"))
    },
    "avg_pool3d": Case("avg_pool3d_backward", lambda x: functional.avg_pool3d(x, 2), ((2, 3, 6, 7, 8),)),
    "avg_pool3d overlapping": Case(
        "avg_pool3d_backward",
        lambda x: functional.avg_pool3d(x, (3, 2, 3), (2, 1, 2), 1, ceil_mode=True, count_include_pad=False),
        ((2, 3, 6, 7, 8),),
    ),
    "avg_pool3d divided": Case(
        "avg_pool3d_backward",
        lambda x: functional.avg_pool3d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
        ((3, 6, 7, 8),),
    ),
    "avg_pool3d padded": Case(
        "avg_pool3d_backward", lambda x: functional.avg_pool3d(x, 3, 2, 1, ceil_mode=True), ((2, 3, 6, 7, 8),)
    ),
    "max_pool3d": Case(
        "max_pool3d_with_indices_backward", lambda x: functional.max_pool3d(x, 3, 2, 1), ((2, 3, 6, 7, 8),)
    ),
    "fractional 2d": Case("fractional_max_pool2d_backward", _fractional2, ((2, 3, 12, 11),)),
    "fractional 3d": Case("fractional_max_pool3d_backward", _fractional3, ((2, 3, 9, 11, 9),), twice=False),
    "ctc": Case("_ctc_loss_backward", _ctc(False), ((12, 4, 6),), twice=False),
    "ctc flat": Case("_ctc_loss_backward", _ctc(True), ((12, 4, 6),), twice=False),
    "ctc infinite": Case("_ctc_loss_backward", _ctc(True, True), ((12, 4, 6),), twice=False),
    "reflect 1d": Case("reflection_pad1d_backward", lambda x: functional.pad(x, (3, 4), "reflect"), ((2, 3, 9),)),
    "reflect 3d": Case(
        "reflection_pad3d_backward", lambda x: functional.pad(x, (2, 1, 3, 0, 1, 2), "reflect"), ((2, 3, 4, 5, 6),)
    ),
    "replicate 1d": Case("replication_pad1d_backward", lambda x: functional.pad(x, (3, 4), "replicate"), ((2, 3, 9),)),
    "replicate 2d": Case(
        "replication_pad2d_backward", lambda x: functional.pad(x, (3, 4, 0, 5), "replicate"), ((2, 3, 9, 4),)
    ),
    "replicate 3d": Case(
        "replication_pad3d_backward", lambda x: functional.pad(x, (2, 1, 3, 0, 1, 2), "replicate"), ((2, 3, 4, 5, 6),)
    ),
    "unpool 2d": Case("max_unpool2d", _unpool2, ((2, 3, 4, 4),), wants_gradient=False),
    "unpool 3d": Case("max_unpool3d", _unpool3, ((2, 3, 2, 2, 2),), wants_gradient=False),
    "put": Case("put_", lambda x, y: x.put(_like(_numbers(60, 40), x), y), ((8, 5), (60,)), wants_gradient=False),
    "take": Case("put_", lambda x: x.take(_like(_numbers(200, 40), x)), ((8, 5),)),
    "bag": Case("_embedding_bag_dense_backward", _bag, ((4, 5),), wants_gradient=False),
    "bincount": Case(
        "bincount",
        lambda x: torch.bincount(_like(_numbers(200, 7), x), x, minlength=9),
        ((200,),),
        wants_gradient=False,
    ),
    "histc": Case("histc", lambda x: torch.histc(x, 13), ((700,),), wants_gradient=False),
    "histc bounds": Case("histc", lambda x: torch.histc(x, 10, -1, 1), ((700,),), wants_gradient=False),
    "median": Case("median.dim", lambda x: x.median(1).values, ((7, 12),)),
    "nanmedian": Case("nanmedian.dim", lambda x: x.nanmedian(0, keepdim=True).values, ((7, 12),)),
    "sparse mm": Case("addmm", _sparse, ((9, 6), (6, 5)), twice=False),
    "sparse rows": Case("addmm", _rows, ((9, 6), (6, 5)), wants_gradient=False),
    "cumprod": Case("cumprod", lambda x: (x * 0.01 + 1).cumprod(0), ((3000,),)),
    "logcumsumexp": Case("_logcumsumexp", lambda x: x.logcumsumexp(1), ((1, 3000),)),
}


def arguments(case: Case, dtype: torch.dtype, device: str) -> list[Tensor]:
    """Values for a case, the same in every call; each wants a gradient, where the case has one."""
    generator = torch.Generator().manual_seed(1)
    values = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in case.shapes)
    # Rounded to the coarsest type, so that all begin with the same.
    return [one.bfloat16().to(dtype).to(device).requires_grad_(case.wants_gradient) for one in values]


def results(case: Case, dtype: torch.dtype, device: str) -> list[Tensor]:
    """What a case returns, and its gradients, on the CPU."""
    given = arguments(case, dtype, device)
    found = case.call(*given)
    gradients: tuple[Tensor, ...] = ()
    if case.wants_gradient:
        generator = torch.Generator().manual_seed(2)
        grad = torch.randn(found.shape, generator=generator, dtype=torch.float64).bfloat16().to(dtype).to(device)
        gradients = torch.autograd.grad(found, given, grad)
    return [one.detach().cpu() for one in (found, *gradients)]


@contextmanager
def on_cpu() -> Iterator[Counter[str]]:
    """Formulas in the place of the CPU's kernels, too: where each is ours; how often each operation was replaced."""
    heard, table = Counter[str](), overrides.TABLE
    overrides.TABLE = tuple(replace(one, on_cpu=True) for one in TABLE)
    try:
        end = overrides.replace(lambda name: heard.update([name]))
        try:
            yield heard
        finally:
            end()
    finally:
        overrides.TABLE = table


def unnamed() -> set[str]:
    """Operations of the table that no case calls."""
    return {one.name for one in TABLE} - {case.op for case in CASES.values()}
