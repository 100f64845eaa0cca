"""A fast 64-bit digest of raw bytes: XXH3, or BLAKE2b in an interpreter without the package `xxhash`.

XXH3 is as fast as memory. Its value is fixed since xxHash 0.8.0, whatever vector instructions compute it; it is no
cryptographic hash, but nobody here tries to make tensors collide. The recorded command may run in an environment in
which samebits is not installed: there BLAKE2b of the standard library is used, at 1 GB/s. The recording says which of
the two it was, and digests of one are never compared with digests of the other.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

try:
    if os.environ.get("SAMEBITS_WITHOUT_XXHASH"):
        # The run with which this one is compared has no `xxhash`.
        raise ImportError
    import xxhash

    RAW_DIGEST, raw_digest = "xxh3", xxhash.xxh3_64_intdigest
except ImportError:
    RAW_DIGEST = "blake2b"

    def raw_digest(raw: object) -> int:  # type: ignore[misc]
        """Return 64 bits that depend on every byte."""
        return digest_of_blocks([raw])


MASK_64 = (1 << 64) - 1


def digest_of_blocks(blocks: Iterable[Any]) -> int:
    """Return the digest of the concatenated blocks of bytes."""
    state: Any = xxhash.xxh3_64() if RAW_DIGEST == "xxh3" else hashlib.blake2b(digest_size=8)
    for block in blocks:
        state.update(block)
    # Each in its usual byte order: XXH3 is written with the highest byte first.
    return int.from_bytes(state.digest(), "big" if RAW_DIGEST == "xxh3" else "little")


def memory(address: int, size: int) -> Any:
    """Return `size` bytes of memory as a buffer, without a copy; the caller must keep the memory alive."""
    return _bytes(size).from_address(address) if size else b""


@lru_cache(maxsize=4096)
def _bytes(size: int) -> Any:
    # Making a type takes 10 µs, a buffer of an existing type 0.2 µs.
    return ctypes.c_char * size
