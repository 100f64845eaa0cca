"""`/dev/urandom` and `/dev/random`, opened as files: what is read from them comes from elsewhere."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable
from hashlib import shake_256
from typing import Any

from samebits.factors.context import FactorContext, Mode

DEVICES = ("/dev/urandom", "/dev/random")
# How much one opened device holds: far more than any generator takes as its seed.
HELD_BYTES = 1 << 20


def watch_devices(context: FactorContext, derived: Callable[[int, Mode], bytes]) -> None:
    """Witness who opens them; pinned or varied, a file in memory is opened instead, with derived bytes.

    It is a file of the system's, so whatever reads it, also by its number or in C, as `numpy.fromfile` does, may.
    """

    def instead_of(file: object) -> int | None:
        name = _device(file)
        mode = context.enter(name) if name else "natural"
        if mode == "natural" or not hasattr(os, "memfd_create"):  # which only Linux has
            return None
        descriptor = os.memfd_create(name)
        os.write(descriptor, shake_256(derived(64, mode)).digest(HELD_BYTES))
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def file_opening(original: Callable[..., object]) -> Callable[..., object]:
        def open_(file: object, mode: str = "r", *args: object, **kwargs: object) -> object:
            descriptor = None if set("wax+") & set(mode) else instead_of(file)
            return original(file if descriptor is None else descriptor, mode, *args, **kwargs)

        return open_

    def descriptor_opening(original: Callable[..., int]) -> Callable[..., int]:
        def open_(path: object, flags: int, *args: object, **kwargs: object) -> int:
            descriptor = instead_of(path)
            return original(path, flags, *args, **kwargs) if descriptor is None else descriptor

        return open_

    opened = file_opening(builtins.open)
    for owner in (builtins, io):
        context.replace(owner, "open", opened)
    context.replace(os, "open", descriptor_opening(os.open))


def _device(file: Any) -> str:
    """The device that a path names; empty for other paths, and for what is none."""
    if isinstance(file, int):
        return ""
    if not isinstance(file, str):
        try:
            file = os.fsdecode(file)
        except (TypeError, ValueError):
            return ""
    return file if file in DEVICES else ""
