"""`/dev/urandom` and `/dev/random` opened as files: where they are pinned or varied, derived bytes are read."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from samebits.factors.context import FactorContext, Mode

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

DEVICES = ("/dev/urandom", "/dev/random")

Bytes = Callable[[int, Mode], bytes]


class DerivedFile(io.RawIOBase):
    """A file of endless derived bytes under the name of a device."""

    def __init__(self, name: object, mode: Mode, derived: Bytes, descriptor: int | None = None) -> None:
        self.name, self.mode = name, "rb"
        self._mode, self._derived, self._descriptor = mode, derived, descriptor

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        memory = memoryview(buffer).cast("B")
        memory[:] = self.taken(len(memory))
        return len(memory)

    def taken(self, size: int) -> bytes:
        """Return the next bytes."""
        return self._derived(size, self._mode)

    def close(self) -> None:
        if not self.closed and self._descriptor is not None:
            os.close(self._descriptor)
        super().close()


def watch_devices(context: FactorContext, derived: Bytes) -> None:
    """Witness the lines that open a random device; where it is pinned or varied, hand out derived bytes."""
    devices = _Devices(context, derived)
    for owner in (builtins, io):
        context.replace(owner, "open", devices.open)
    context.replace(os, "open", devices.open_descriptor)
    context.replace(os, "read", devices.read)
    context.when_loaded("numpy", lambda numpy: context.replace(numpy, "fromfile", partial(devices.fill, numpy)))


class _Devices:
    def __init__(self, context: FactorContext, derived: Bytes) -> None:
        self.context, self.derived = context, derived
        # Descriptor from `os.open` → how reads from it are treated, while it still belongs to a random device.
        self.descriptors: dict[int, Mode] = {}

    def open(
        self,
        original: Callable[..., object],
        file: object,
        mode: str = "r",
        buffering: int = -1,
        *args: Any,
        **kwargs: Any,
    ) -> object:
        """Answer a call of `open`: a random device opened for reading becomes a `DerivedFile`."""
        treatment = None if set("wax+") & set(mode) else self._treated(file)
        if treatment is None:
            return original(file, mode, buffering, *args, **kwargs)
        raw = DerivedFile(file, treatment, self.derived, file if isinstance(file, int) else None)
        if "b" not in mode:
            return io.TextIOWrapper(io.BufferedReader(raw), *args, **kwargs)
        return raw if buffering == 0 else io.BufferedReader(raw)

    def _treated(self, file: object) -> Mode | None:
        """Return how to treat an opened file; None for a file that is no random device, or is left alone."""
        if isinstance(file, int):
            return self._of_descriptor(file)
        name = _device(file)
        mode = self.context.enter(name) if name else "natural"
        return None if mode == "natural" else mode

    def _of_descriptor(self, descriptor: int) -> Mode | None:
        if descriptor not in self.descriptors:
            return None
        # The descriptor may have been closed, and its number given to another file.
        if _is_random(descriptor):
            return self.descriptors[descriptor]
        del self.descriptors[descriptor]
        return None

    def open_descriptor(
        self, original: Callable[..., int], path: object, flags: int, *args: object, **kwargs: object
    ) -> int:
        """Answer a call of `os.open`: the device is opened, and reads from its descriptor are treated."""
        descriptor = original(path, flags, *args, **kwargs)
        mode = self._treated(path)
        if mode is not None:
            self.descriptors[descriptor] = mode
        return descriptor

    def read(self, original: Callable[[int, int], bytes], fd: int, length: int, /) -> bytes:
        """Answer a call of `os.read`."""
        mode = self._of_descriptor(fd) if self.descriptors else None
        return original(fd, length) if mode is None else self.derived(length, mode)

    def fill(
        self,
        numpy: ModuleType,
        original: Callable[..., object],
        file: object,
        dtype: object = float,
        count: int = -1,
        *args: object,
        **kwargs: object,
    ) -> object:
        """Answer a call of `numpy.fromfile`, which reads in C."""
        raw = getattr(file, "raw", file)
        if not isinstance(raw, DerivedFile):
            mode = self._treated(file) if count >= 0 else None
            if mode is None:
                return original(file, dtype, count, *args, **kwargs)
            raw = DerivedFile(file, mode, self.derived)
        size = numpy.dtype(dtype).itemsize * max(count, 0)
        return numpy.frombuffer(bytearray(raw.taken(size)), dtype)


def _device(file: Any) -> str:
    """Return the random device that a path names; empty for other paths, and for anything that is not a path."""
    with suppress(TypeError, ValueError):
        name = os.fsdecode(file)
        return name if name in DEVICES else ""
    return ""


def _is_random(descriptor: int) -> bool:
    with suppress(OSError):
        return os.fstat(descriptor).st_rdev in [os.stat(name).st_rdev for name in DEVICES]
    return False
