"""A search for the generators that objects hold, through all that a dataset, its transforms and functions reach."""

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

# A container with more items holds data, such as a million file names: only the first items are searched.
ITEMS_LOOKED_AT = 10_000
OBJECTS_LOOKED_AT = 100_000

_CLOSED = (
    *(str, bytes, bytearray, memoryview, int, float, complex, type(None), type(Ellipsis), range, slice),
    *(torch.Tensor, torch.dtype, torch.device, BuiltinFunctionType),
)
_CONTAINERS = (list, tuple, dict, deque)
_PLAIN_CONTAINERS = (*_CONTAINERS, OrderedDict)


def find_generators(*roots: tuple[str, object], beside: Iterable[object] = ()) -> list[tuple[str, object]]:
    """Return the generators that can be reached from the roots, each with the first path that leads to it.

    The search follows attributes, slots, items of lists, tuples and dicts, the objects bound in partials and methods,
    and for functions (also those of the objects' classes) their closures, defaults and, where they are the user's, the
    globals that they name. It does not follow the contents of libraries' modules and classes, sets, which have no
    order, and items beyond the first ten thousand of a container.

    Args:
        roots: name and object; paths begin with the name.
        beside: objects that are not searched.

    Returns:
        Path (`dataset.transform.rng`) and generator: `random.Random`, NumPy's `Generator`, `RandomState` and bit
        generators, `torch.Generator`. Paths are the same in every process that holds the same objects.
    """
    return _Search(beside).run(roots)


def is_seedable(generator: object) -> bool:
    """Whether a generator can be seeded; the operating system's cannot."""
    return not isinstance(generator, random.SystemRandom)


def generator_types() -> tuple[type, ...]:
    """Return the generator classes of all libraries that are loaded."""
    numpy_random = sys.modules.get("numpy.random")
    classes = (random.Random, torch.Generator)
    if numpy_random is None:
        return classes
    return (*classes, numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator)


class _Search:
    def __init__(self, beside: Iterable[object]) -> None:
        self.wanted = generator_types()
        # Computed once for each type, and kept only as long as the search.
        self.is_closed: Callable[[type], bool] = cache(_is_closed)
        self.slots: Callable[[type], list[tuple[str, str]]] = cache(_slots)
        # The objects are kept alive as long as their ids are used.
        self.known: dict[int, object] = {id(excluded): excluded for excluded in beside}
        self.found: dict[str, object] = {}
        # Containers, which hold data, come last: so a search that stops early has seen every transform.
        self.objects: deque[tuple[str, object]] = deque()
        self.containers: deque[tuple[str, object]] = deque()

    def run(self, roots: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
        """Return everything that is found from the roots."""
        for path, reached in roots:
            self.note_or_queue(path, reached)
        while self.objects or self.containers:
            if len(self.known) > OBJECTS_LOOKED_AT:
                warnings.warn(
                    f"samebits looked through {OBJECTS_LOOKED_AT} objects for generators, and stopped: one that lies "
                    "deeper is not found",
                    stacklevel=2,
                )
                break
            path, reached = self.objects.popleft() if self.objects else self.containers.popleft()
            for step, inner in self.inside(reached):
                if id(inner) not in self.known:
                    self.note_or_queue(path + step, inner)
        return list(self.found.items())

    def note_or_queue(self, path: str, one: object) -> None:
        """Note a generator, or queue an object that is to be searched later."""
        # Not isinstance, which asks the object for its class: a proxy of a deleted object would raise.
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
        """Whether a container holds only numbers and text, or many lists of these, such as files with their classes."""
        items = one.values() if isinstance(one, dict) else one
        inner = set(map(type, itertools.islice(items, ITEMS_LOOKED_AT)))
        pairs = inner & {list, tuple}
        if not all(map(self.is_closed, inner - pairs)):
            return False
        if not pairs:
            return True
        if len(items) <= 8:
            return False
        nested = (item for item in itertools.islice(items, ITEMS_LOOKED_AT) if type(item) in pairs)
        within = itertools.chain.from_iterable(nested)
        kinds = set(map(type, itertools.islice(within, 8 * ITEMS_LOOKED_AT)))
        return all(map(self.is_closed, kinds)) and next(within, None) is None

    def inside(self, one: Any) -> Iterable[tuple[str, object]]:
        """Return the objects that an object holds, each with the step that leads to it."""
        kind = type(one)
        if kind in _CONTAINERS:
            return _items(one, kind)
        for special, look in _LOOKS.items():
            if issubclass(kind, special):
                return look(one)
        attributes = [*self.attributes(one, kind), (".<class>", kind)]
        # A network has hundreds of modules, which hold objects in attributes only.
        is_module = issubclass(kind, torch.nn.Module) and not issubclass(kind, _CONTAINERS)
        return attributes if is_module else itertools.chain(_items(one, kind), attributes)

    def attributes(self, one: object, kind: type) -> list[tuple[str, object]]:
        """Return the attributes of an object, from its dictionary and its slots."""
        steps = []
        for name in ("func", "args", "keywords") if kind.__name__ == "partial" else ():
            steps.append((f".{name}", getattr(one, name, None)))
        try:
            held = object.__getattribute__(one, "__dict__")
        except (AttributeError, ReferenceError):
            held = {}
        if isinstance(held, dict):
            is_closed = self.is_closed
            if issubclass(kind, torch.nn.Module):
                # A module's parameters and buffers are tensors; only its children may hold other objects.
                steps += [(f".{name}", child) for name, child in held.get("_modules", {}).items()]
                held = {name: held[name] for name in held if name not in ("_modules", "_parameters", "_buffers")}
            # Most attributes are numbers and text, and in modules a dozen dicts without hooks: skipping them is quick.
            steps += [
                (f".{name}", value)
                for name, value in held.items()
                if not is_closed(type(value)) and (type(value) is not OrderedDict or value)
            ]
        for name, stored in self.slots(kind):
            with suppress(AttributeError, ReferenceError):
                steps.append((f".{name}", object.__getattribute__(one, stored)))
        return steps


def _is_closed(kind: type) -> bool:
    """Whether objects of a type are closed to the search."""
    return issubclass(kind, _CLOSED) or kind in (set, frozenset)


def _slots(kind: type) -> list[tuple[str, str]]:
    """Return the names of a type's slots, as they are shown and as they are stored."""
    names = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            is_private = name.startswith("__") and not name.endswith("__")
            names.append((name, f"_{base.__name__.lstrip('_')}{name}" if is_private else name))
    return names


def _items(one: Any, kind: type) -> Iterator[tuple[str, object]]:
    # With the methods of the plain types: those of a subclass may read files, or draw.
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
    """Return the names in a function's code, and in that of functions and comprehensions within it."""
    inner = [name for constant in code.co_consts if hasattr(constant, "co_names") for name in _names_in(constant)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _is_users(module: ModuleType | None) -> bool:
    """Whether a module is the user's: libraries have thousands of classes and functions, and few generators in them."""
    return module is not None and (
        module.__name__ == "__main__" or is_user_file(getattr(module, "__file__", None) or "<")
    )


# Type → the function that looks into its objects, where these are not searched by items and attributes.
_LOOKS: dict[type, Callable[[Any], Iterable[tuple[str, object]]]] = {
    ModuleType: lambda _: (),
    FunctionType: _of_function,
    MethodType: lambda method: [("", method.__self__), (".<function>", method.__func__)],
    type: _of_class,
}
