"""The submodules of a torch module, found without torch's own methods, which a user's class may have replaced."""

from __future__ import annotations

from typing import Any


def inner_modules(module: Any) -> list[tuple[str, Any]]:
    """List a module and all in it as (path, module): each object once, under its first path, even if it equals another.

    Paths and order are those of `torch.nn.Module.named_modules()`.
    """
    named: list[tuple[str, Any]] = []
    seen: set[int] = set()
    stack = [("", module)]
    while stack:
        path, current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        named.append((path, current))
        if current._modules:
            prefix = f"{path}." if path else ""
            children = [(prefix + name, child) for name, child in current._modules.items() if child is not None]
            stack += reversed(children)
    return named
