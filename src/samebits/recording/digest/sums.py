"""The keyed sum of one tensor, where it lies: a slab at a time, left on its device."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from samebits.recording.digest.blocks import copy_elements
from samebits.recording.digest.keys import BLOCK_WORDS, bits_for, block_keys_on, even, table, words_for

# What one launch works on: 32 MB. Four of that size are alive at most, however large the tensor is.
_SLAB_BLOCKS = 128


def sum_of(tensor: Tensor) -> Tensor:
    """A promise of the sum."""
    row_keys = table(tensor.device)
    slab_keys = block_keys_on(tensor.device, bits_for(words_for(tensor.dtype, tensor.shape)))
    sums, before = [], None
    for slab, words in enumerate(_slabs(tensor)):
        rows = _folded(words, before).view(-1, BLOCK_WORDS).mul_(row_keys).sum(1)
        sums.append(rows.mul_(slab_keys[slab * _SLAB_BLOCKS :][: rows.numel()]).sum())
        before = words[-1:]
    return torch.stack(sums).sum()


def _slabs(tensor: Tensor) -> Iterator[Tensor]:
    """The row-major bytes as 8-byte words: the tensor's own memory where that is possible, else copies."""
    slab_words = _SLAB_BLOCKS * BLOCK_WORDS
    offset = tensor.storage_offset() * tensor.itemsize
    aligned = (offset | tensor.nbytes | tensor.data_ptr()) % 8 == 0
    if aligned and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        # Not view(-1): up to torch 2.6 that keeps the odd stride of a single element.
        yield from torch.split(tensor.as_strided((tensor.numel(),), (1,)).view(torch.int64), slab_words)
        return
    most = 8 * slab_words // tensor.itemsize
    for start in range(0, tensor.numel(), most):
        elements = min(most, tensor.numel() - start)
        count = -(-elements * tensor.itemsize // 8)
        words = torch.zeros(even(count), dtype=torch.int64, device=tensor.device)
        copy_elements(tensor, start, words.view(tensor.dtype)[:elements])
        yield words[:count]


def _folded(words: Tensor, before: Tensor | None) -> Tensor:
    """Each word XOR the upper half of the word before it, filled up with zeros to whole blocks."""
    count = words.numel()
    folded = torch.zeros(-(-count // BLOCK_WORDS) * BLOCK_WORDS, dtype=torch.int64, device=words.device)
    folded[1:count] = words[:-1] >> 32
    if before is not None:
        folded[:1] = before >> 32
    folded[:count].bitwise_xor_(words)
    return folded
