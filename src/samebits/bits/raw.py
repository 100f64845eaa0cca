"""64 bits of raw bytes, quickly: XXH3, or BLAKE2b in an interpreter that has no `xxhash`.

XXH3 reads as fast as memory gives. Its value is fixed since xxHash 0.8.0, whatever vector instructions compute it; it
is no cryptographic hash, but no one here tries to make tensors collide. The command that is recorded may run in an
environment that samebits is not installed in; there the standard library has to do, at 1 GB/s. Which of the two it
was stands in the recording, and what one gives is never compared with what the other gives.
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
        # What this run is compared with has none.
        raise ImportError
    import xxhash

    RAW_DIGEST, raw_digest = "xxh3", xxhash.xxh3_64_intdigest
except ImportError:
    RAW_DIGEST = "blake2b"

    def raw_digest(raw: object) -> int:  # type: ignore[misc]
        """64 bits that depend on every byte."""
        return digest_of_blocks([raw])


MASK_64 = (1 << 64) - 1


def digest_of_blocks(blocks: Iterable[Any]) -> int:
    """The digest of blocks of bytes as if they lay side by side."""
    state: Any = xxhash.xxh3_64() if RAW_DIGEST == "xxh3" else hashlib.blake2b(digest_size=8)
    for block in blocks:
        state.update(block)
    # Either as it is written down elsewhere: XXH3 with the highest byte first.
    return int.from_bytes(state.digest(), "big" if RAW_DIGEST == "xxh3" else "little")


def memory(address: int, size: int) -> Any:
    """`size` bytes of memory as a buffer, without a copy; the caller keeps the memory alive."""
    return _bytes(size).from_address(address) if size else b""


@lru_cache(maxsize=4096)
def _bytes(size: int) -> Any:
    # Making a type costs 10 µs, making a buffer of a type that is there 0.2 µs.
    return ctypes.c_char * size
