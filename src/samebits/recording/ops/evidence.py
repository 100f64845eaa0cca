"""A digest that is cheap enough for every result of every operation.

    small (up to 4 KB)       BLAKE2b of the bytes
    larger, on the CPU       BLAKE2b of the sums modulo 2⁶⁴ of all rows and of all columns, once the 8-byte words are
                             laid out as a matrix with an odd number of columns, and of the words and bytes left over
    8-byte and complex numbers, and whatever lies elsewhere or in several parts: the digest of `recording.digest`

Rows and columns are summed at the speed of memory, four times as fast as a keyed sum, and integers may be added in any
order. A change to up to three words is always seen: some row or some column then holds exactly one of them. Larger
changes go unseen only where they cancel in every row and in every column at once. The sign of every second number lies
in the top bit of a word, where pairs cancel: that is what the odd number of columns is for, and why 8-byte numbers,
with nothing but signs up there, take the other way.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

import torch

from samebits.recording.digest import digest

_MASK = (1 << 64) - 1
_SMALL_BYTES = 1 << 12
_NARROW, _WIDE = 511, 2047
# Up to 32768 elements torch sums on the calling thread alone, without waking another one; and 1 MB fits into a cache.
_BLOCK_WORDS = 1 << 15
_LARGE_WORDS = 1 << 17
_SUMMED = {
    *(torch.float32, torch.float16, torch.bfloat16, torch.bool, torch.int8, torch.uint8, torch.int16, torch.int32),
    *(getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)),
}


def evidence_of(tensor: Any) -> int:
    """64 bits that are equal when the bits of two tensors of one dtype and shape are. Below autograd only."""
    if tensor.dtype not in _SUMMED or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        return digest(tensor)
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if tensor.is_contiguous():
        return _of_memory(tensor)
    if is_dense(tensor):
        # Permuted: read as it lies, which is the same order in both runs if the strides are.
        return hash((_of_memory(tensor), tensor.stride())) & _MASK
    return _of_memory(tensor.contiguous())


def is_dense(tensor: Any) -> bool:
    """Whether the elements lie side by side, each once, in whatever order."""
    if tensor.is_contiguous():
        return True
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != reach:
                return False
            reach *= size
    return True


def _of_memory(dense: Any) -> int:
    size, address = dense.nbytes, dense.data_ptr()
    if size <= _SMALL_BYTES:
        return _blake(ctypes.string_at(address, size))
    if (address | dense.storage_offset() * dense.itemsize) % 8:
        dense = dense.clone()
        address = dense.data_ptr()
    count = size // 8
    is_large = count >= _LARGE_WORDS
    columns = _WIDE if is_large else _NARROW
    summed = count - count % columns
    words = dense.as_strided((summed * 8 // dense.itemsize,), (1,)).view(torch.int64).view(-1, columns)
    # Both sums of one block while it is in the cache.
    blocks = words.split((_LARGE_WORDS if is_large else _BLOCK_WORDS) // columns)
    found = hashlib.blake2b(digest_size=8)
    total = None
    for block in blocks:
        rows, cols = block.sum(1), block.sum(0)
        found.update(ctypes.string_at(rows.data_ptr(), rows.nbytes))
        total = cols if total is None else total.add_(cols)
    if total is not None:
        found.update(ctypes.string_at(total.data_ptr(), total.nbytes))
    found.update(ctypes.string_at(address + 8 * summed, size - 8 * summed))
    return int.from_bytes(found.digest(), "little")


def _blake(raw: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")
