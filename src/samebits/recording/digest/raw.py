"""64 bits of raw bytes, quickly: XXH3, or BLAKE2b in an interpreter that has no `xxhash`.

The command that is recorded may run in an environment that samebits is not installed in; there the standard library has
to do, at 1 GB/s. What either gives is compared only within one environment.
"""

from __future__ import annotations

import hashlib
from typing import Any

try:
    from xxhash import xxh3_64_intdigest as raw_digest
except ImportError:

    def raw_digest(raw: Any) -> int:  # type: ignore[misc]
        """64 bits that depend on every byte."""
        return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


__all__ = ["raw_digest"]
