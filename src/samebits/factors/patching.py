"""Replacements of a library's functions and methods, in place while a factor is treated."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from functools import wraps
from types import MethodType, ModuleType
from typing import Any, SupportsIndex

from samebits.base.sites import leave_out_own_frames, without_own_frames


class PatchedFunction:
    """A replacement of a function, which behaves like it as far as Python lets an object do so.

    A class does not turn it into a method, and pickle finds it under its name. It equals the original: torch, shutil
    and others keep tables of functions, in which each must be found under the other.
    """

    def __init__(self, home: str, name: str, original: object, call: Callable[..., object]) -> None:
        self.__wrapped__ = original
        self.__module__, self.__doc__ = home, original.__doc__
        self._name, self.call = name, call

    def __call__(self, *args: object, **kwargs: object) -> object:
        try:
            return self.call(*args, **kwargs)
        except BaseException as error:
            leave_out_own_frames(error)
            raise

    def __getattr__(self, name: str) -> object:
        return getattr(self.__wrapped__, name)

    def __eq__(self, other: object) -> bool:
        return self is other or bool(self.__wrapped__ == other)

    def __hash__(self) -> int:
        return hash(self.__wrapped__)

    def __repr__(self) -> str:
        return repr(self.__wrapped__)

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        # `random.uniform` is a method: pickle takes its generator along.
        return self.__wrapped__.__reduce_ex__(protocol) if self._is_method else self._name

    def __deepcopy__(self, memo: dict[int, Any]) -> object:
        # As of a function in C, there is no copy; a method in Python is copied with its object.
        original: Any = self.__wrapped__
        return copy.deepcopy(original, memo) if self._is_method and isinstance(original, MethodType) else self

    def __copy__(self) -> PatchedFunction:
        return self

    @property
    def _is_method(self) -> bool:
        return not isinstance(getattr(self.__wrapped__, "__self__", None), ModuleType | None)


_kept: dict[tuple[str, str, int], PatchedFunction] = {}


def patched_function(home: str, name: str, original: Callable[..., object]) -> PatchedFunction:
    """Return the replacement of a function, one object for all treatments; it calls the original until `call` is set.

    It is never freed: torch's compiler keeps tables of functions by `id()`, and would take the next object at the
    address of a freed one for that one.
    """
    return _kept.setdefault((home, name, id(original)), PatchedFunction(home, name, original, original))


def tell_torchscript(original: object, replacement: object) -> Callable[[], object]:
    """Let TorchScript, which finds operators by the `id()` of functions, find it by a replacement; return an undo."""
    torchscript = sys.modules.get("torch.jit._builtins")
    table = torchscript._get_builtin_table() if torchscript is not None else {}
    if id(original) in table:
        table[id(replacement)] = table[id(original)]
    return lambda: table.pop(id(replacement), None)


def wrapped(original: Callable[..., object], call: Callable[..., object]) -> Callable[..., object]:
    """Return a function that runs `call` with the original as first argument; a class makes a method of it."""

    @wraps(original)
    def calling(*args: object, **kwargs: object) -> object:
        with without_own_frames:
            return call(original, *args, **kwargs)

    return calling
