"""The keyed sums of one tensor's rows, where it lies: a slab at a time, left on its device."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from samebits.bits.digest.blocks import copy_elements
from samebits.bits.digest.keys import ROW_WORDS, WORD_BYTES, rows_for, table

# What one launch works on: 16 MB, whose products take 32 MB. No more is alive, however large the tensor is; and in the
# cache of a large device they still are when they are added up.
SLAB_ROWS = 1024


def sum_rows(tensor: Tensor, into: Tensor) -> None:
    """Write the sum of each of the tensor's rows; the rows' own keys are not in it yet."""
    start = 0
    for words in _slabs(tensor):
        rows = rows_for(words.numel())
        sum_words(words, into[start : start + rows])
        start += rows


def sum_words(words: Tensor, into: Tensor) -> None:
    """The same of words that lie side by side."""
    keys = table(words.device)
    whole, rest = divmod(words.numel(), ROW_WORDS)
    if whole:
        torch.sum(words[: whole * ROW_WORDS].view(whole, ROW_WORDS) * keys, 1, out=into[:whole])
    if rest:
        torch.sum(words[whole * ROW_WORDS :] * keys[:rest], 0, keepdim=True, out=into[whole:])


def _slabs(tensor: Tensor) -> Iterator[Tensor]:
    """The row-major bytes as words: the tensor's own memory where that is possible, else copies."""
    offset = tensor.storage_offset() * tensor.itemsize
    aligned = (offset | tensor.nbytes | tensor.data_ptr()) % WORD_BYTES == 0
    if aligned and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        # Not view(-1): up to torch 2.6 that keeps the odd stride of a single element.
        flat = tensor.as_strided((tensor.numel(),), (1,)).view(torch.int32)
        yield from torch.split(flat, SLAB_ROWS * ROW_WORDS)
        return
    most = SLAB_ROWS * ROW_WORDS * WORD_BYTES // tensor.itemsize
    for start in range(0, tensor.numel(), most):
        yield _copied(tensor, start, min(most, tensor.numel() - start))


def _copied(tensor: Tensor, start: int, count: int) -> Tensor:
    """So many elements of the row-major order as words, the last one filled up with zeros."""
    size = count * tensor.itemsize
    make = torch.zeros if size % WORD_BYTES else torch.empty
    words = make(-(-size // WORD_BYTES), dtype=torch.int32, device=tensor.device)
    copy_elements(tensor, start, count, words)
    return words
