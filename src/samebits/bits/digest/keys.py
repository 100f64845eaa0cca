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


# By the stream that uploads: on another one the numbers might not be there yet.
@lru_cache(maxsize=64)
def table(device: torch.device, stream: object) -> Tensor:
    """The keys of the words of any row, before the row's own key."""
    return uploaded(_odd_numbers("table", ROW_WORDS), device)


def row_keys(count: int) -> Tensor:
    """The keys of the first rows, on the host."""
    # A power of two is enough for many counts; few lengths of that list are ever made.
    return _row_keys((count - 1).bit_length() if count else 0)[:count]


@cache
def _row_keys(bits: int) -> Tensor:
    keys = _odd_numbers("row", 1 << bits)
    # The first row has none: what fits into one row is summed without another operation.
    keys[0] = 1
    return keys


def uploaded(values: Tensor, device: torch.device) -> Tensor:
    """The same on a device, which is not waited for."""
    with torch.inference_mode(False):
        if has_streams(device):
            # From memory that is not pinned a copy waits for all that was queued before; pinned memory is given back
            # when the copy is done (c10/core/CachingHostAllocator: record_event).
            return values.pin_memory().to(device, non_blocking=True)
        return values.to(device)


def _odd_numbers(name: str, count: int) -> Tensor:
    # SHAKE's output is a prefix of its longer output: more keys never change the first ones.
    raw = bytearray(hashlib.shake_256(f"samebits digest 2: {name}".encode()).digest(8 * count))
    with torch.inference_mode(False):
        return torch.frombuffer(raw, dtype=torch.int64).bitwise_or_(1)


def salt(text: str) -> int:
    """What is no number of its own, as a number."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, person=b"samebits.digest").digest(), "little")
