"""The digest of a tensor in the memory of the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from samebits.bits.digest.blocks import copy_elements
from samebits.bits.digest.keys import salt
from samebits.bits.digest.parts import LOW_ADDRESS, dtype_text, holds_bits, is_plain
from samebits.bits.raw import MASK_64, digest_of_blocks, memory, raw_digest

# How much of a tensor that is not row-major in memory is copied at a time: so much stays in a cache until it is read.
BLOCK_BYTES = 1 << 20


def host_digests(tensors: Sequence[object]) -> list[int | None]:
    """Return the digest of each plain tensor on the CPU; None for anything else, and for a tensor without bits.

    Call it inside `unobserved` only.
    """
    return [_host_digest(tensor) for tensor in tensors]


def _host_digest(tensor: Any) -> int | None:
    try:
        if not tensor.is_cpu:
            return None
        plain = salt_and_size(tensor.__class__, tensor.dtype, tensor.shape, tensor.layout)
        if plain is None:
            return None
        address = tensor.data_ptr()
    except (RuntimeError, TypeError, AttributeError):
        # Nested and uninitialized tensors have no shape, wrappers no address, and other objects have neither.
        return None
    if address < LOW_ADDRESS and not holds_bits(tensor):
        return None
    own_salt, size = plain
    if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        return (own_salt + raw_digest(memory(address, size))) & MASK_64
    return (own_salt + digest_of_blocks(_copied_blocks(tensor))) & MASK_64


@lru_cache(maxsize=1 << 14)
def salt_and_size(
    kind: type[Tensor], dtype: torch.dtype, shape: torch.Size, layout: torch.layout
) -> tuple[int, int] | None:
    """Return the salt of a dtype and shape, and the number of bytes; None if such a tensor is not plain."""
    if not is_plain(kind, dtype, layout):
        return None
    return salt(f"{dtype_text(dtype)}{list(shape)}"), shape.numel() * dtype.itemsize


def _copied_blocks(tensor: Tensor) -> Iterator[object]:
    """The blocks of the row-major bytes, in order."""
    most = BLOCK_BYTES // tensor.itemsize
    # A multiple of 16 bytes, into which elements of every dtype fit.
    room = torch.empty(2 * -(-min(BLOCK_BYTES, tensor.nbytes) // 16), dtype=torch.int64)
    for start in range(0, tensor.numel(), most):
        count = min(most, tensor.numel() - start)
        copy_elements(tensor, start, count, room)
        yield memory(room.data_ptr(), count * tensor.itemsize)
