"""Generators that objects hold: found by walking whatever a dataset, its transforms and its functions can reach."""

from __future__ import annotations

import itertools
import random
import sys
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from samebits.base.sites import is_user_file

# Further in, a container holds data: a million file names are not searched for generators.
ITEMS_LOOKED_AT = 10_000
OBJECTS_LOOKED_AT = 100_000

_CLOSED = (
    *(str, bytes, bytearray, memoryview, int, float, complex, type(None), type(Ellipsis), range, slice),
    *(torch.Tensor, torch.dtype, torch.device, BuiltinFunctionType),
)
_CONTAINERS = (list, tuple, dict, deque)
_PLAIN_CONTAINERS = (*_CONTAINERS, OrderedDict)


def find_generators(*roots: tuple[str, object], beside: Iterable[object] = ()) -> list[tuple[str, object]]:
    """The generators that can be reached, each under the first way that leads to it.

    Looked through: attributes, slots, items of lists, tuples and dicts, what a partial or a method is bound to, and for
    functions (also those of the objects' classes) their closures, defaults and, where they are the user's, the globals
    that they name. Not looked through: what libraries keep in their modules and classes, sets, which have no order,
    and items beyond the first ten thousand of a container.

    Args:
        roots: name and object; the names begin the ways.
        beside: objects that are not looked into.

    Returns:
        Way (`dataset.transform.rng`) and generator: `random.Random`, NumPy's `Generator`, `RandomState` and bit
        generators, `torch.Generator`. Ways are the same in every process that holds the same objects.
    """
    return _Search(beside).run(roots)


def is_keyable(generator: object) -> bool:
    """Whether it can be seeded; the operating system's cannot."""
    return not isinstance(generator, random.SystemRandom)


def generator_types() -> tuple[type, ...]:
    """The classes of generators of all libraries that are loaded."""
    numpy_random = sys.modules.get("numpy.random")
    own = (random.Random, torch.Generator)
    if numpy_random is None:
        return own
    return (*own, numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator)


class _Search:
    def __init__(self, beside: Iterable[object]) -> None:
        self.wanted = generator_types()
        # Of each type asked once a search, and no longer kept than that.
        self.is_closed: Callable[[type], bool] = cache(_is_closed)
        self.slots: Callable[[type], list[tuple[str, str]]] = cache(_slots)
        # Objects are kept while their ids are.
        self.known: dict[int, object] = {id(one): one for one in beside}
        self.found: dict[str, object] = {}
        # What holds data comes last: a search that has to stop has seen every transform by then.
        self.objects: deque[tuple[str, object]] = deque()
        self.containers: deque[tuple[str, object]] = deque()

    def run(self, roots: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
        """Everything that is found from there."""
        for path, one in roots:
            self.meet(path, one)
        while self.objects or self.containers:
            if len(self.known) > OBJECTS_LOOKED_AT:
                warnings.warn(
                    f"samebits looked through {OBJECTS_LOOKED_AT} objects for generators, and stopped: one that lies "
                    "deeper is not found",
                    stacklevel=2,
                )
                break
            path, one = self.objects.popleft() if self.objects else self.containers.popleft()
            for step, inner in self.inside(one):
                if id(inner) not in self.known:
                    self.meet(path + step, inner)
        return list(self.found.items())

    def meet(self, path: str, one: object) -> None:
        """Note a generator, and what is to be looked into later."""
        # Not isinstance: that would ask the object what it is, and a proxy of something gone would raise.
        kind = type(one)
        if self.is_closed(kind) or id(one) in self.known or (kind in _PLAIN_CONTAINERS and self.holds_values_only(one)):
            return
        self.known[id(one)] = one
        if issubclass(kind, self.wanted):
            number = sum(known == path or known.startswith(f"{path}#") for known in self.found)
            self.found[f"{path}#{number}" if number else path] = one
        elif kind in _CONTAINERS:
            self.containers.append((path, one))
        else:
            self.objects.append((path, one))

    def holds_values_only(self, one: Any) -> bool:
        """Whether it is nothing, numbers and text, or what datasets are made of, files with their classes."""
        items = one.values() if isinstance(one, dict) else one
        inner = set(map(type, itertools.islice(items, ITEMS_LOOKED_AT)))
        pairs = inner & {list, tuple}
        if not all(map(self.is_closed, inner - pairs)):
            return False
        if not pairs:
            return True
        if len(items) <= 8:
            return False
        found = (one for one in itertools.islice(items, ITEMS_LOOKED_AT) if type(one) in pairs)
        within = itertools.chain.from_iterable(found)
        kinds = set(map(type, itertools.islice(within, 8 * ITEMS_LOOKED_AT)))
        return all(map(self.is_closed, kinds)) and next(within, None) is None

    def inside(self, one: Any) -> Iterable[tuple[str, object]]:
        """What an object holds, and how it is reached from there."""
        kind = type(one)
        if kind in _CONTAINERS:
            return _items(one, kind)
        for special, look in _LOOKS.items():
            if issubclass(kind, special):
                return look(one)
        attributes = [*self.attributes(one, kind), (".<class>", kind)]
        # There are hundreds of modules, and they hold nothing in any other way.
        is_module = issubclass(kind, torch.nn.Module) and not issubclass(kind, _CONTAINERS)
        return attributes if is_module else itertools.chain(_items(one, kind), attributes)

    def attributes(self, one: object, kind: type) -> list[tuple[str, object]]:
        """The attributes of an object, in its dictionary and in slots."""
        found = []
        for name in ("func", "args", "keywords") if kind.__name__ == "partial" else ():
            found.append((f".{name}", getattr(one, name, None)))
        try:
            own = object.__getattribute__(one, "__dict__")
        except (AttributeError, ReferenceError):
            own = {}
        if isinstance(own, dict):
            is_closed = self.is_closed
            if issubclass(kind, torch.nn.Module):
                # A module's parameters are tensors; its children are what may hold anything.
                found += [(f".{name}", child) for name, child in own.get("_modules", {}).items()]
                own = {name: own[name] for name in own if name not in ("_modules", "_parameters", "_buffers")}
            # Most attributes are numbers and texts, and of modules a dozen dicts without a hook: here the time goes.
            found += [
                (f".{name}", value)
                for name, value in own.items()
                if not is_closed(type(value)) and (type(value) is not OrderedDict or value)
            ]
        for name, stored in self.slots(kind):
            with suppress(AttributeError, ReferenceError):
                found.append((f".{name}", object.__getattribute__(one, stored)))
        return found


def _is_closed(kind: type) -> bool:
    """Whether nothing is held by objects of a type."""
    return issubclass(kind, _CLOSED) or kind in (set, frozenset)


def _slots(kind: type) -> list[tuple[str, str]]:
    """Names of attributes that are in no dictionary, as they are shown and as they are stored."""
    found = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            found.append((name, f"_{base.__name__.lstrip('_')}{name}" if is_private else name))
    return found


def _items(one: Any, kind: type) -> Iterator[tuple[str, object]]:
    # By the plain types' own methods: those of a subclass may read files, or draw.
    if issubclass(kind, dict):
        for key, item in itertools.islice(dict.items(one), ITEMS_LOOKED_AT):
            if issubclass(type(key), str | int | tuple):
                yield f"[{key!r}]", item
        return
    for plain in (list, tuple, deque):
        if issubclass(kind, plain):
            for number, item in enumerate(itertools.islice(plain.__iter__(one), ITEMS_LOOKED_AT)):
                yield f"[{number}]", item


def _of_class(kind: type) -> Iterator[tuple[str, object]]:
    if not _is_users(sys.modules.get(kind.__module__)):
        return
    for base in kind.__bases__:
        yield ".<base>", base
    for name, value in list(vars(kind).items()):
        inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if isinstance(inner, property):
            inner = inner.fget
        if name != "__dict__":
            yield f".{name}", inner


def _of_function(function: FunctionType) -> Iterator[tuple[str, object]]:
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield ".<wrapped>", wrapped
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:
            continue
    yield ".<defaults>", function.__defaults__
    yield ".<keywords>", function.__kwdefaults__
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


def _names_in(code: CodeType) -> list[str]:
    """Names of a function's code and of the functions and comprehensions within it."""
    inner = [name for constant in code.co_consts if hasattr(constant, "co_names") for name in _names_in(constant)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _is_users(module: ModuleType | None) -> bool:
    """Whether a module is the user's: libraries have thousands of classes and functions, and few generators in them."""
    return module is not None and (
        module.__name__ == "__main__" or is_user_file(getattr(module, "__file__", None) or "<")
    )


# What looks into objects that are no ordinary ones.
_LOOKS: dict[type, Callable[[Any], Iterable[tuple[str, object]]]] = {
    ModuleType: lambda _: (),
    FunctionType: _of_function,
    MethodType: lambda method: [("", method.__self__), (".<function>", method.__func__)],
    type: _of_class,
}
