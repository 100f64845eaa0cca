"""The tap of HDF5, which opens its files in C, below h5py's low-level functions (api.h5py.org, Module H5F)."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from samebits.factors.imports import when_loaded
from samebits.factors.patching import PatchedFunction

# Gets the arguments of Python's audit event `open`: path, mode, flags.
Opened = Callable[[tuple[object, ...]], None]


def watch_hdf5(opened: Opened) -> None:
    """Report every file that h5py opens, from when it is imported."""

    def watch(module: ModuleType) -> None:
        creating = os.O_RDWR | os.O_CREAT
        flags_of_modes = {
            "open": {module.ACC_RDONLY: os.O_RDONLY, module.ACC_RDWR: os.O_RDWR},
            "create": {module.ACC_EXCL: creating | os.O_EXCL, module.ACC_TRUNC: creating | os.O_TRUNC},
        }
        for name, flags in flags_of_modes.items():
            original = getattr(module, name)
            setattr(module, name, PatchedFunction(module.__name__, name, original, partial(opens, original, flags)))

    def opens(
        original: Callable[..., object], ways: dict[int, int], path: object, *args: object, **kwargs: object
    ) -> object:
        *_, default = ways.values()
        requested: Any = args[0] if args else kwargs.get("flags")
        opened((path, None, ways.get(requested, default)))
        return original(path, *args, **kwargs)

    when_loaded("h5py.h5f", watch)
