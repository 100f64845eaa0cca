"""The fixed numbers of the digest: keys of words and rows, and salts."""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache

import torch
from torch import Tensor

from samebits.accelerators.devices import has_streams

# Part of the definition.
WORD_BYTES = 4
ROW_WORDS = 1 << 12
ROW_BYTES = WORD_BYTES * ROW_WORDS


# Cached for each stream that uploads: on another stream the numbers might not be there yet.
@lru_cache(maxsize=64)
def table(device: torch.device, stream: object) -> Tensor:
    """Return the keys of the words within a row, which are the same in every row, without the row's own key."""
    return uploaded(_odd_numbers("table", ROW_WORDS), device)


def row_keys(count: int) -> Tensor:
    """Return the keys of the first `count` rows, on the host."""
    # Lengths are rounded up to powers of two, so that few lists are ever made.
    return _row_keys((count - 1).bit_length() if count else 0)[:count]


@cache
def _row_keys(bits: int) -> Tensor:
    keys = _odd_numbers("row", 1 << bits)
    # The first row's key is 1, so that a tensor of one row needs no further operation.
    keys[0] = 1
    return keys


def uploaded(values: Tensor, device: torch.device) -> Tensor:
    """Return the values on a device, without waiting for it."""
    with torch.inference_mode(False):
        if has_streams(device):
            # A copy from memory that is not pinned waits for all work queued before; pinned memory is freed when the
            # copy is done (c10/core/CachingHostAllocator: record_event).
            return values.pin_memory().to(device, non_blocking=True)
        return values.to(device)


def _odd_numbers(name: str, count: int) -> Tensor:
    # SHAKE's output is a prefix of its longer output: more keys never change the first ones.
    raw = bytearray(hashlib.shake_256(f"samebits digest 2: {name}".encode()).digest(8 * count))
    with torch.inference_mode(False):
        return torch.frombuffer(raw, dtype=torch.int64).bitwise_or_(1)


def salt(text: str) -> int:
    """Return a text as a number: 64 bits of its BLAKE2b."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, person=b"samebits.digest").digest(), "little")
