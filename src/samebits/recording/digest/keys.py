"""The fixed numbers of the digest: keys and salts, and how many words a tensor has."""

from __future__ import annotations

import hashlib
from functools import cache

import torch
from torch import Tensor

# Part of the definition.
BLOCK_WORDS = 1 << 15


@cache
def table(device: torch.device) -> Tensor:
    """The keys of the words of any block, before the block's own key."""
    raw = bytearray(_stream("table", 8 * BLOCK_WORDS))
    with torch.inference_mode(False):
        return torch.frombuffer(raw, dtype=torch.int64).bitwise_or(1).to(device)


@cache
def block_keys(bits: int) -> list[int]:
    """2 to the power of `bits` of them."""
    raw = _stream("block", 8 << bits)
    return [int.from_bytes(raw[i : i + 8], "little") | 1 for i in range(0, len(raw), 8)]


@cache
def block_keys_on(device: torch.device, bits: int) -> Tensor:
    """The same, there."""
    with torch.inference_mode(False):
        return torch.tensor([key - (1 << 64) if key >> 63 else key for key in block_keys(bits)], device=device)


def _stream(name: str, length: int) -> bytes:
    # SHAKE's output is a prefix of its longer output: more keys never change the first ones.
    return hashlib.shake_256(f"samebits digest 1: {name}".encode()).digest(length)


def salt(text: str) -> int:
    """What is no number of its own, as a number."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, person=b"samebits.digest").digest(), "little")


def salt_of(dtype: torch.dtype, shape: torch.Size) -> int:
    """What makes equal bytes of another dtype or shape another digest."""
    return salt(f"{dtype_text(dtype)}{list(shape)}")


def words_for(dtype: torch.dtype, shape: torch.Size) -> int:
    """How many 8-byte words hold such a tensor."""
    return -(-shape.numel() * dtype.itemsize // 8)


def bits_for(words: int) -> int:
    """The power of two that is enough block keys for so many words; few lengths of that list are ever made."""
    return ((words - 1) // BLOCK_WORDS).bit_length()


def even(count: int) -> int:
    """The count, made even."""
    # 16-byte elements (complex128) must begin at a multiple of 16 bytes.
    return count + count % 2


def dtype_text(dtype: torch.dtype) -> str:
    """`float32`."""
    return str(dtype).removeprefix("torch.")
