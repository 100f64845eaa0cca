"""A tensor as numbers that every device copies bit by bit, in row-major order however it lies in memory.

Not every kernel knows every dtype: the copy of many tensors at once knows no uint16, no complex32 and no float8_e8m0fnu
(ATen/native/cuda/ForeachBinaryOpList.cu: foreach_tensor_copy_list_kernel_cuda_), and takes float16 and bfloat16 through
float32, where NaNs lose their payload. Integers of the same width are known everywhere, and stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator

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


def copy_elements(tensor: Tensor, start: int, count: int, into: Tensor) -> None:
    """Write so many elements of the row-major order, from `start` on, to the beginning of contiguous words."""
    places = into.view(bits_dtype(tensor.dtype))
    at = 0
    for piece in pieces(tensor, start, start + count):
        numbers = as_bits(piece)
        places[at : at + numbers.numel()].view(numbers.shape).copy_(numbers)
        at += numbers.numel()


def pieces(tensor: Tensor, start: int, stop: int) -> Iterator[Tensor]:
    """Views that hold, one after the other, the elements from `start` to `stop` of the row-major order."""
    if stop - start == tensor.numel():
        yield tensor
        return
    row = tensor.numel() // tensor.shape[0]
    first, skipped = divmod(start, row)
    last, rest = divmod(stop, row)
    if skipped:
        yield from pieces(tensor[first], skipped, rest if first == last else row)
        first += 1
    if first < last:
        yield tensor.narrow(0, first, last - first)
    if first <= last and rest:
        yield from pieces(tensor[last], 0, rest)
