"""A tensor's elements in row-major order, whatever its strides, as numbers that every device copies bit by bit.

Not every kernel supports every dtype, and some convert float16 and bfloat16 to float32 and back, where NaNs lose their
payload. Integers of the same width are supported everywhere, and are copied unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

_AS_THEY_ARE = {torch.float32, torch.float64, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_OF_WIDTH = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.float64}


def kind_of_numbers(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of the numbers that `as_numbers` gives for elements of a dtype."""
    return dtype if dtype in _AS_THEY_ARE else _OF_WIDTH[dtype.itemsize]


def as_numbers(tensor: Tensor) -> Tensor:
    """Return the same memory as numbers, two for an element of 16 bytes; a copy if conjugation or negation is lazy."""
    dtype = tensor.dtype
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    if dtype in _AS_THEY_ARE:
        return tensor
    return torch.view_as_real(tensor) if dtype.itemsize == 16 else tensor.view(_OF_WIDTH[dtype.itemsize])


def copy_elements(tensor: Tensor, start: int, count: int, into: Tensor) -> None:
    """Write `count` elements of the row-major order, from `start` on, to the beginning of `into`, contiguous words."""
    at = 0
    for piece in pieces(tensor, start, start + count):
        numbers = as_numbers(piece)
        into.view(numbers.dtype)[at : at + numbers.numel()].view(numbers.shape).copy_(numbers)
        at += numbers.numel()


def pieces(tensor: Tensor, start: int, stop: int) -> Iterator[Tensor]:
    """The views that together hold the elements from `start` to `stop` of the row-major order, in this order."""
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
