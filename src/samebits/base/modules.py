"""The modules within a module, walked through without torch's own methods, which a user's class may have replaced."""

from __future__ import annotations

from typing import Any


def inner_modules(module: Any) -> list[tuple[str, Any]]:
    """Path and module, for it and all in it, each once under its first path, whatever the user's classes call equal.

    Paths and order are those of `torch.nn.Module.named_modules()`.
    """
    found: list[tuple[str, Any]] = []
    known: set[int] = set()
    waiting = [("", module)]
    while waiting:
        path, one = waiting.pop()
        if id(one) in known:
            continue
        known.add(id(one))
        found.append((path, one))
        if one._modules:
            prefix = f"{path}." if path else ""
            inner = [(prefix + name, child) for name, child in one._modules.items() if child is not None]
            waiting += reversed(inner)
    return found
