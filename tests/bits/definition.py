"""The digest's two definitions once more, in NumPy and from nothing but the docstring of `bits/digest`."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor
from xxhash import xxh3_64_intdigest

MASK = (1 << 64) - 1
ROW = 1 << 12


def on_host(raw: bytes, dtype: str, shape: tuple[int, ...]) -> int:
    """The digest of a tensor on the CPU."""
    return (salt(dtype, shape) + xxh3_64_intdigest(raw)) & MASK


def elsewhere(raw: bytes, dtype: str, shape: tuple[int, ...]) -> int:
    """The digest of a tensor on an accelerator."""
    words = np.frombuffer(raw + b"\0" * (-len(raw) % 4), "<i4").astype(np.int64)
    index = np.arange(len(words))
    rows = odd_keys("row", len(words) // ROW + 1).copy()
    rows[0] = 1
    keys = odd_keys("table", ROW)[index % ROW] * rows[index // ROW]
    return (salt(dtype, shape) + int((keys * words.view(np.uint64)).sum(dtype=np.uint64))) & MASK


def salt(dtype: str, shape: tuple[int, ...]) -> int:
    text = f"{dtype}{list(shape)}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8, person=b"samebits.digest").digest(), "little")


def odd_keys(name: str, count: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    stream = hashlib.shake_256(f"samebits digest 2: {name}".encode()).digest(8 * count)
    return np.frombuffer(stream, "<u8") | np.uint64(1)


def bytes_of(tensor: Tensor) -> tuple[bytes, str, tuple[int, ...]]:
    """What either definition takes, of a tensor anywhere."""
    raw = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return raw, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
