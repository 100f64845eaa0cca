"""Changing a method of a class written in C, whose attributes Python does not let anybody set."""

from __future__ import annotations

import gc


def exchange_method(owner: type, name: str, method: object) -> object:
    """Put `method` into the class under `name`, for everybody, and return what was there.

    The class stays the class it is: C code, subclasses, pickles and annotations see no other one.

    Raises:
        RuntimeError: this Python does not show the table of a class's methods.
    """
    # Not at the top: processes without such a class do not pay for it.
    import ctypes

    # `vars` gives a read-only view; the one object that the view refers to is the table itself.
    tables = gc.get_referents(vars(owner))
    if len(tables) != 1 or not isinstance(tables[0], dict):
        raise RuntimeError(f"this Python does not let methods of {owner.__name__} be changed")
    before = tables[0][name]
    tables[0][name] = method
    # Python remembers where it found a method, without holding it; `before` lives until it has forgotten.
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))
    return before
