"""The script's own classes: their objects hash by address, unless another function is put behind `__hash__`."""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable

from samebits.base.sites import is_user_file, without_own_frames
from samebits.factors.context import FactorContext, exchange_method

# Where CPython keeps the functions in C: that of a class behind its head and twelve other entries (PyTypeObject), and
# that which a method shows to Python (PyWrapperDescrObject).
_WORD = ctypes.sizeof(ctypes.c_void_p)
_HASH_OF_CLASS, _FUNCTION_OF_METHOD = 15 * _WORD, 6 * _WORD


class OwnClasses:
    """Gives objects of the script's classes another hash, where they would hash by their addresses.

    What the class says of itself stays as it is, since dataclasses, attrs and classes that inherit from several others
    decide by `__hash__`: only the function in C behind it is exchanged, as soon as the class is made. Classes with
    `__slots__` and no weak references are left alone: nobody would learn that an address is another object's now.
    """

    def __init__(self, number: Callable[[object], int]) -> None:
        self._number = number
        self._default, self._ours = _word(id(object.__hash__) + _FUNCTION_OF_METHOD).value, 0
        self._changed: list[weakref.ref[type]] = []

    def install(self, context: FactorContext) -> None:
        """Change every class that is made from now on, until the context ends."""
        if _word(id(object) + _HASH_OF_CLASS).value != self._default:
            return  # this Python lays classes out in another way
        function = ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.py_object)(self._number)
        # Classes may outlive us, to the end of the interpreter.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
        self._ours = ctypes.cast(function, ctypes.c_void_p).value or 0
        original = vars(object)["__init_subclass__"]

        def init_subclass(cls: type, /, **kwargs: object) -> None:
            with without_own_frames:
                original.__get__(None, cls)(**kwargs)
            hashes = _word(id(cls) + _HASH_OF_CLASS)
            if hashes.value == self._default and cls.__weakrefoffset__ and _is_the_users(cls):
                hashes.value = self._ours
                self._changed.append(weakref.ref(cls))

        exchange_method(object, "__init_subclass__", classmethod(init_subclass))
        context.undo.callback(exchange_method, object, "__init_subclass__", original)

    def take_back(self) -> None:
        """Let the classes hash as before."""
        while self._changed:
            cls = self._changed.pop()()
            if cls is not None and (hashes := _word(id(cls) + _HASH_OF_CLASS)).value == self._ours:
                hashes.value = self._default


def _word(address: int) -> ctypes.c_void_p:
    """What lies at an address, to be read or changed."""
    return ctypes.c_void_p.from_address(address)


def _is_the_users(cls: type) -> bool:
    module = sys.modules.get(cls.__module__)
    path = getattr(module, "__file__", None)
    return module is not None and (cls.__module__ == "__main__" if path is None else is_user_file(path))
