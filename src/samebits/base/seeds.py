"""derive(): the only way in which samebits makes one seed from another."""

from __future__ import annotations

import hashlib
from operator import index


def derive(root: int, *path: str | int, bits: int = 64) -> int:
    """Return the seed that belongs to `path` under `root`: a hash, so that no two paths share a stream.

    >>> derive(0, "worker", 1) == derive(0, "worker", 1)
    True
    >>> derive(0, "worker", 1) == derive(1, "worker", 0)    # adding would make these two equal
    False

    Args:
        root: the seed from which all others are derived; any integer.
        path: what the seed is for, from the general to the particular. `1` and `"1"` are different words.
        bits: how many bits to keep, 1 to 512. torch's CPU generator uses only the low 32, so ask for 32 there:
            then the value that is reported is the value that is used.

    Raises:
        TypeError: a word is neither text nor a whole number.
        ValueError: `bits` is out of range.
    """
    if not 1 <= bits <= 512:
        raise ValueError(f"bits must be from 1 to 512, got {bits}")
    digest = hashlib.blake2b(_encoded(index(root), *path), person=b"samebits.derive", digest_size=64).digest()
    return int.from_bytes(digest, "little") & ((1 << bits) - 1)


def _encoded(*words: str | int) -> bytes:
    # Type and length stand before each word, so ("ab", "c") and ("a", "bc") differ, and so do 1 and "1".
    parts = []
    for word in words:
        if type(word) is int:
            # Gives the same bytes as below, in a third of the time: a loader makes a key for every sample.
            number = b"%d" % word
            parts.append(b"i%d:%b" % (len(number), number))
            continue
        kind, text = (b"s", word) if isinstance(word, str) else (b"i", str(index(word)))
        # A file name may contain surrogates, which UTF-8 cannot encode.
        raw = text.encode(errors="surrogatepass")
        parts.append(b"%c%d:%s" % (kind, len(raw), raw))
    return b"".join(parts)


class KeyDeriver:
    """`derive` for many paths with the same first words, which are hashed only once; gives bytes.

    >>> int.from_bytes(KeyDeriver(0, "sample").key(3, 17), "little") == derive(0, "sample", 3, 17, bits=512)
    True

    Args:
        root: the seed from which all keys are derived.
        path: the words that all keys begin with.
    """

    def __init__(self, root: int, *path: str | int) -> None:
        self._state = hashlib.blake2b(_encoded(index(root), *path), person=b"samebits.derive", digest_size=64)

    def key(self, *words: str | int) -> bytes:
        """Return the key of these words, 64 bytes."""
        state = self._state.copy()
        state.update(_encoded(*words))
        return state.digest()
