"""The parts of a tensor: its own bits, or several tensors; and which tensors hold no bits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import torch
from torch import Tensor

from samebits.base.errors import SamebitsError

# The dtypes that torch can copy element by element. Others (sub-byte integers, future ones) are digested as bytes.
_PLAIN_DTYPES = {
    getattr(torch, name, torch.float32)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    )
}
_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}
# Memory never lies this low on a 64-bit system; an offset into freed storage does.
LOW_ADDRESS = 1 << 40

Index: TypeAlias = "int | tuple[str, list[Index]]"


class NotEvidenceError(SamebitsError, TypeError):
    """An attempt to digest a tensor that holds no bits."""

    kind = "not_evidence"


def flattened(tensor: Tensor, leaves: list[Tensor]) -> Index:
    """Append the tensors that hold the tensor's bits to `leaves`, and return their places in it."""
    if not tensor.is_nested and is_plain(type(tensor), tensor.dtype, tensor.layout):
        if not holds_bits(tensor):
            raise not_evidence(tensor)
        leaves.append(tensor)
        return len(leaves) - 1
    kind, parts = _parts(tensor)
    return kind, [flattened(part, leaves) for part in parts]


@lru_cache(maxsize=1024)
def is_plain(kind: type[Tensor], dtype: torch.dtype, layout: torch.layout) -> bool:
    """Whether such a tensor has its own bits, which can be copied element by element."""
    # A class with its own dispatch keeps its bits elsewhere, even if its layout is "strided".
    own_dispatch: bool = kind.__torch_dispatch__ is not Tensor.__torch_dispatch__
    return layout is torch.strided and dtype in _PLAIN_DTYPES and not own_dispatch


def holds_bits(tensor: Tensor) -> bool:
    """Whether there is memory behind a plain tensor."""
    try:
        storage = tensor.untyped_storage()
        return storage.device.type != "meta" and (storage.data_ptr() != 0 or tensor.shape.numel() == 0)
    except RuntimeError:
        return False


def not_evidence(tensor: Tensor) -> NotEvidenceError:
    """Return the error for a tensor without bits."""
    return NotEvidenceError(
        f"a {type(tensor).__name__} on {tensor.device} holds no bits that could be digested",
        hint="leave out tensors for which is_evidence() is False: meta, fake and functional tensors, freed storage",
    )


def dtype_text(dtype: torch.dtype) -> str:
    """Return the name of a dtype, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def _parts(tensor: Any) -> tuple[str, list[Tensor]]:
    """Return the parts of a tensor: everything that is not in a tensor, as text, and its tensors."""
    kind = f"{type(tensor).__name__} {dtype_text(tensor.dtype)}"
    if hasattr(tensor, "_masked_data"):  # a MaskedTensor, whose layout is that of its data
        return kind, [tensor._masked_data, tensor._masked_mask]
    if tensor.layout in _SPARSE_PARTS:
        kind += f" {tensor.layout} {list(tensor.shape)}"
        return kind, [getattr(tensor, name)() for name in _SPARSE_PARTS[tensor.layout]]
    if tensor.is_quantized:
        return _quantized_parts(tensor, kind)
    if tensor.layout is torch._mkldnn:  # type: ignore[attr-defined]
        return kind + " mkldnn", [tensor.to_dense()]
    if tensor.layout is torch.jagged:  # the wrapper's own list of parts also names caches, which may be empty
        return kind, [part for part in (tensor._values, tensor._offsets, tensor._lengths) if part is not None]
    if tensor.is_nested:
        return kind + " nested", list(tensor.unbind())
    if hasattr(tensor, "trigger_wait"):  # the result of a collective under way: wait, as its first use would
        return kind, [tensor.trigger_wait()]
    if hasattr(tensor, "__tensor_flatten__"):
        held = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        return kind, [part for part in held if isinstance(part, Tensor)]  # DTensor names its mesh among them
    if holds_bits(tensor):  # a class with its own dispatch around real memory, or a dtype that cannot be copied
        return kind, [tensor.as_subclass(Tensor).view(torch.uint8)]
    raise not_evidence(tensor)


def _quantized_parts(tensor: Tensor, kind: str) -> tuple[str, list[Tensor]]:
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return f"{kind} {tensor.q_scale().hex()} {tensor.q_zero_point()}", [tensor.int_repr()]
    scales, zero_points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return f"{kind} axis {tensor.q_per_channel_axis()}", [tensor.int_repr(), scales, zero_points]
