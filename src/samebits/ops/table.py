"""The table of the operations that are replaced, and their formulas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from samebits.ops import grids, indices, losses, planes, scans

# Takes the arguments of the operation, except tensors to write to, and returns its result, or None where torch's own
# kernel has to compute: it does not race there, or refuses for good reason.
Formula = Callable[..., Any]


@dataclass(frozen=True)
class Replacement:
    """One operation and its formula.

    Attributes:
        name: name in `aten`, with the overload if there are several; overloads that write the result come with it.
        formula: computes the result.
        on_cpu: whether torch's kernel for the CPU races or refuses, too.
        layout: the beginning of the dispatch keys; empty for dense tensors.
    """

    name: str
    formula: Formula
    on_cpu: bool = False
    layout: str = ""


_aten = torch.ops.aten
_total = partial(torch.sum, keepdim=True)
_RESAMPLING = {
    "upsample_linear1d": _aten.upsample_linear1d,
    "upsample_bilinear2d": _aten.upsample_linear1d,
    "upsample_trilinear3d": _aten.upsample_linear1d,
    "upsample_bicubic2d": _aten.upsample_bicubic2d,
    "_upsample_bilinear2d_aa": _aten._upsample_bilinear2d_aa,
    "_upsample_bicubic2d_aa": _aten._upsample_bicubic2d_aa,
}

TABLE = (
    Replacement("nll_loss2d_forward", losses.nll_loss2d_forward),
    *(
        Replacement(f"_adaptive_avg_pool{dims}d_backward", partial(planes.adaptive_avg_pool_backward, dims))
        for dims in (2, 3)
    ),
    *(Replacement(f"adaptive_max_pool{dims}d_backward", partial(indices.max_pool_backward, dims)) for dims in (2, 3)),
    *(
        Replacement(f"{name}_backward", partial(planes.upsample_backward, kind.default))
        for name, kind in _RESAMPLING.items()
    ),
    Replacement("scatter_reduce.two", indices.scatter_reduce),
    Replacement("scatter.reduce", indices.scatter_multiply),
    Replacement("scatter.value_reduce", indices.scatter_multiply_by),
    Replacement("index_reduce", indices.index_reduce),
    *(Replacement(f"grid_sampler_{dims}d_backward", grids.grid_sampler_backward) for dims in (2, 3)),
    Replacement("cudnn_grid_sampler_backward", grids.cudnn_grid_sampler_backward),
    Replacement("avg_pool3d_backward", planes.avg_pool3d_backward),
    Replacement("max_pool3d_with_indices_backward", partial(indices.max_pool_backward, 3)),
    *(Replacement(f"fractional_max_pool{dims}d_backward", partial(indices.max_pool_backward, dims)) for dims in (2, 3)),
    Replacement("_ctc_loss_backward", losses.ctc_loss_backward),
    Replacement("_ctc_loss_backward.Tensor", losses.ctc_loss_backward),
    *(
        Replacement(f"reflection_pad{dims}d_backward", partial(planes.pad_backward, 1, torch.Tensor.flip))
        for dims in (1, 3)
    ),
    *(Replacement(f"replication_pad{dims}d_backward", partial(planes.pad_backward, 0, _total)) for dims in (1, 2, 3)),
    *(Replacement(f"max_unpool{dims}d", partial(indices.max_unpool, dims), on_cpu=True) for dims in (2, 3)),
    Replacement("put_", indices.put, on_cpu=True),
    Replacement("_embedding_bag_dense_backward", indices.embedding_bag_backward),
    Replacement("bincount", indices.bincount),
    Replacement("histc", indices.histc),
    Replacement("median.dim", partial(indices.median, False)),
    Replacement("nanmedian.dim", partial(indices.median, True)),
    Replacement("cumprod", partial(scans.scanned, torch.cumprod, torch.mul, 1.0)),
    Replacement("_logcumsumexp", partial(scans.scanned, torch.logcumsumexp, torch.logaddexp, -torch.inf)),
    Replacement("addmm", indices.sparse_addmm, layout="Sparse"),
    Replacement("addmm", indices.sparse_addmm, layout="SparseCsr"),
    Replacement("mm", indices.sparse_mm, layout="Sparse"),
    Replacement("mm", indices.sparse_mm, layout="SparseCsr"),
)
