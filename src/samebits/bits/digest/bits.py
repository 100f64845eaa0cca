"""A tensor as numbers that every device copies bit by bit, whatever its dtype means.

Not every kernel knows every dtype: the copy of many tensors at once knows no uint16, no complex32 and no float8_e8m0fnu
(ATen/native/cuda/ForeachBinaryOpList.cu: foreach_tensor_copy_list_kernel_cuda_), and takes float16 and bfloat16 through
float32, where NaNs lose their payload. Integers of the same width are known everywhere, and stay what they are.
"""

from __future__ import annotations

import torch
from torch import Tensor

_AS_THEY_ARE = {torch.float32, torch.float64, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_OF_WIDTH = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.float64}


def bits_dtype(dtype: torch.dtype) -> torch.dtype:
    """What such elements are copied as."""
    return dtype if dtype in _AS_THEY_ARE else _OF_WIDTH[dtype.itemsize]


def bits_shape(dtype: torch.dtype, shape: torch.Size) -> tuple[int, ...]:
    """The shape of `as_bits`: two numbers for an element of 16 bytes."""
    return (*shape, 2) if dtype.itemsize == 16 else tuple(shape)


def as_bits(tensor: Tensor) -> Tensor:
    """A look at the same memory; a copy where the conjugate or the negative is only promised."""
    dtype = tensor.dtype
    if dtype in _AS_THEY_ARE:
        return tensor.resolve_neg() if tensor.is_neg() else tensor
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if dtype.itemsize == 16 else tensor.view(_OF_WIDTH[dtype.itemsize])
