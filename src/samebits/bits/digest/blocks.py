"""Reading a tensor in row-major order, a block at a time, however it lies in memory."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor


def copy_elements(tensor: Tensor, start: int, into: Tensor) -> None:
    """Fill `into`, which has one dimension, with the elements from `start` on of the row-major order."""
    at = 0
    for piece in pieces(tensor, start, start + into.numel()):
        into[at : at + piece.numel()].view(piece.shape).copy_(piece)
        at += piece.numel()


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
