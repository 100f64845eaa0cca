"""Packages whose public names are loaded when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`: a public name is loaded from its module at its first use."""

    def __getattr__(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            module = importlib.import_module(homes[name])
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            from samebits.base.errors import NoTorchError

            raise NoTorchError(f"{package}.{name} needs torch, which is not installed here") from error
        # A public name may also be a module, such as `samebits.data`.
        value = getattr(module, name, module)
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__, lambda: sorted(homes)
