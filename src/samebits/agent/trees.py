"""Walking what users put into batches, losses and checkpoints: every leaf with its path."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

MAX_DEPTH = 32


def leaves(tree: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """Pairs of path and leaf, in the order of the containers; modules and optimizers count by their state_dict.

    >>> list(leaves({"x": [1, 2], "y": 3}))
    [('.x[0]', 1), ('.x[1]', 2), ('.y', 3)]
    """
    if depth > MAX_DEPTH:
        return
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{key}", depth + 1)
    elif isinstance(tree, list | tuple):
        for index, value in enumerate(tree):
            yield from leaves(value, f"{path}[{index}]", depth + 1)
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            yield from leaves(getattr(tree, field.name, None), f"{path}.{field.name}", depth + 1)
    elif callable(getattr(tree, "state_dict", None)):
        yield from leaves(tree.state_dict(), path, depth + 1)
    else:
        yield path, tree


def plain_digest(value: object) -> int | None:
    """The digest of a number or a text; None for anything whose repr need not say what it is."""
    if not isinstance(value, bool | int | float | complex | str | bytes):
        return None
    text = f"{type(value).__name__}:{value!r}"
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
