"""Other hashes for the script's own objects and functions, which by default hash by their addresses."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable
from types import FunctionType

from samebits.base.sites import is_user_file, user_modules, without_own_frames
from samebits.factors.context import FactorContext

# Offsets at which CPython keeps C functions: a class's hash after its head and twelve other entries (PyTypeObject),
# and the function behind a method that Python code sees (PyWrapperDescrObject).
_WORD = ctypes.sizeof(ctypes.c_void_p)
_HASH_OF_CLASS, _FUNCTION_OF_METHOD = 15 * _WORD, 6 * _WORD


class ObjectHashes:
    """Gives functions of the script, and objects of its classes, another hash where they would hash by address.

    The attribute `__hash__` stays as it is, since dataclasses, attrs and multiple inheritance decide by it: only the C
    function behind it is exchanged, as soon as the class is created. Classes with `__slots__` and no weak references
    are left alone: it could not be noticed that an address now belongs to another object. `at_class` is called whenever
    the script has made a class.
    """

    def __init__(self, number: Callable[[object], int], at_class: Callable[[], None] | None = None) -> None:
        self._number, self._at_class = number, at_class
        self._default = _word(id(object.__hash__) + _FUNCTION_OF_METHOD).value
        # The changed classes, each with the address of its new hash function.
        self._changed: list[tuple[weakref.ref[type], int]] = []

    def install(self, context: FactorContext) -> None:
        """Change every class of the user's that is created from now on, until the context ends.

        Functions are changed only if no code of the user has run yet: it may have hashed some.
        """
        if _word(id(object) + _HASH_OF_CLASS).value != self._default:
            return  # this Python lays classes out in another way
        if not _has_begun():
            self._change(FunctionType, _in_c(self._number_of_function))
        numbers, original = _in_c(self._number), vars(object)["__init_subclass__"]

        def init_subclass(cls: type, /, **kwargs: object) -> None:
            with without_own_frames:
                original.__get__(None, cls)(**kwargs)
            if not _is_the_users(cls):
                return
            if cls.__weakrefoffset__:
                self._change(cls, numbers)
            if self._at_class is not None:
                self._at_class()

        context.set_method(object, "__init_subclass__", classmethod(init_subclass))

    def _change(self, cls: type, function: int) -> None:
        hashes = _word(id(cls) + _HASH_OF_CLASS)
        if hashes.value == self._default:
            hashes.value = function
            self._changed.append((weakref.ref(cls), function))

    def _number_of_function(self, function: FunctionType) -> int:
        is_users = is_user_file(function.__code__.co_filename)
        return self._number(function) if is_users else object.__hash__(function)

    def take_back(self) -> None:
        """Let objects of all changed classes hash as before."""
        while self._changed:
            ref, function = self._changed.pop()
            cls = ref()
            if cls is not None and (hashes := _word(id(cls) + _HASH_OF_CLASS)).value == function:
                hashes.value = self._default


def _in_c(number: Callable[..., int]) -> int:
    """Return the address of a C function that calls `number`; it is never freed, since classes may live as long."""
    function = ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.py_object)(number)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _word(address: int) -> ctypes.c_void_p:
    """Return the machine word at an address, to be read or changed."""
    return ctypes.c_void_p.from_address(address)


def _has_begun() -> bool:
    """Whether code of the user has run, which may have hashed functions."""
    main = vars(sys.modules["__main__"])
    return any(module for module in user_modules() if vars(module) is not main) or any(
        name == "__file__" or not name.startswith("__") for name in main
    )


def _is_the_users(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    path = getattr(module, "__file__", None)
    return module is not None and (cls.__module__ == "__main__" if path is None else is_user_file(path))
