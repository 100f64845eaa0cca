"""Generators that objects hold: found by walking whatever a dataset, its transforms and its functions can reach."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from samebits.sites import is_user_file

# Further in, a container holds data: a million file names are not searched for generators.
ITEMS_LOOKED_AT = 1000
OBJECTS_LOOKED_AT = 100_000

_ATOMS = (str, bytes, bytearray, memoryview, int, float, complex, bool, type(None), type(Ellipsis), range, slice)
_CLOSED = (*_ATOMS, torch.Tensor, torch.dtype, torch.device, BuiltinFunctionType)


def find_generators(*roots: tuple[str, Any]) -> list[tuple[str, Any]]:
    """The generators that can be reached, each under the first way that leads to it.

    Looked through: attributes, slots, items of lists, tuples and dicts, what a partial or a method is bound to, and for
    functions (also those of the objects' classes) their closures, defaults and, where they are the user's, the globals
    that they name. Not looked through: what libraries keep in their modules and classes, sets, whose order is nobody's,
    and items beyond the first thousand of a container.

    Args:
        roots: name and object; the names begin the ways.

    Returns:
        Way (`dataset.transform.rng`) and generator: `random.Random`, NumPy's `Generator`, `RandomState` and bit
        generators, `torch.Generator`. Ways are the same in every process that holds the same objects.
    """
    wanted = _generator_types()
    found: list[tuple[str, Any]] = []
    # Objects are kept while their ids are.
    known: dict[int, Any] = {}
    waiting = deque(roots)
    while waiting and len(known) < OBJECTS_LOOKED_AT:
        way, one = waiting.popleft()
        if isinstance(one, _CLOSED) or id(one) in known:
            continue
        known[id(one)] = one
        if isinstance(one, wanted):
            found.append((way, one))
        else:
            waiting.extend((way + step, inner) for step, inner in _inside(one) if not isinstance(inner, _CLOSED))
    return found


def is_keyable(generator: Any) -> bool:
    """Whether it can be told where to begin; the operating system's cannot."""
    return not isinstance(generator, random.SystemRandom)


def _generator_types() -> tuple[type, ...]:
    numpy_random = sys.modules.get("numpy.random")
    own = (random.Random, torch.Generator)
    if numpy_random is None:
        return own
    return (*own, numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator)


def _inside(one: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(one, ModuleType):
        return
    if isinstance(one, FunctionType):
        yield from _of_function(one)
    elif isinstance(one, MethodType):
        yield "", one.__self__
        yield "", one.__func__
    elif isinstance(one, type):
        yield from _of_class(one)
    else:
        yield from _items(one)
        yield from _attributes(one)
        yield "", type(one)


def _items(one: Any) -> Iterator[tuple[str, Any]]:
    # Only plain containers: another one's iterator may read files, or draw.
    if type(one) in (list, tuple, deque) or (isinstance(one, tuple) and hasattr(one, "_fields")):
        for number, item in zip(range(ITEMS_LOOKED_AT), one, strict=False):
            yield f"[{number}]", item
    elif isinstance(one, dict):
        for _, (key, item) in zip(range(ITEMS_LOOKED_AT), one.items(), strict=False):
            if isinstance(key, str | int):
                yield f"[{key!r}]", item


def _attributes(one: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(one, torch.nn.Module):
        # A module's parameters are tensors; its children are what may hold anything.
        for name, child in one._modules.items():
            yield f".{name}", child
    for name in ("func", "args", "keywords") if type(one).__name__ == "partial" else ():
        yield f".{name}", getattr(one, name, None)
    try:
        own = object.__getattribute__(one, "__dict__")
    except AttributeError:
        own = {}
    for name, value in list(own.items()) if isinstance(own, dict) else ():
        if not (isinstance(one, torch.nn.Module) and name in ("_modules", "_parameters", "_buffers")):
            yield f".{name}", value
    for kind in type(one).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            try:
                yield f".{name}", object.__getattribute__(one, name)
            except AttributeError:
                continue


def _of_class(kind: type) -> Iterator[tuple[str, Any]]:
    if not _is_users(sys.modules.get(kind.__module__)):
        return
    for base in kind.__bases__:
        yield "", base
    for name, value in list(vars(kind).items()):
        inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if isinstance(inner, property):
            inner = inner.fget
        if name != "__dict__":
            yield f".{name}", inner


def _of_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield "", wrapped
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:
            continue
    yield ".defaults", function.__defaults__
    yield ".defaults", function.__kwdefaults__
    if not is_user_file(function.__code__.co_filename):
        return
    names = _names_in(function.__code__)
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            # `settings.rng.random()`: the module's attributes that the function names.
            if _is_users(value):
                yield from ((f".{name}.{inner}", vars(value).get(inner)) for inner in names)
        else:
            yield f".{name}", value


def _names_in(code: Any) -> list[str]:
    """Names of a function's code and of the functions and comprehensions within it."""
    inner = [name for constant in code.co_consts if hasattr(constant, "co_names") for name in _names_in(constant)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _is_users(module: Any) -> bool:
    """Whether a module is the user's: libraries have thousands of classes and functions, and few generators in them."""
    return module is not None and (
        module.__name__ == "__main__" or is_user_file(getattr(module, "__file__", None) or "<")
    )
