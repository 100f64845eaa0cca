"""Generators that objects hold: found by walking whatever a dataset, its transforms and its functions can reach."""

from __future__ import annotations

import itertools
import random
import sys
import warnings
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
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
_OF_MODULES = ("._modules", "._parameters", "._buffers")


def find_generators(
    *roots: tuple[str, object], beside: Iterable[object] = (), data: KnownData | None = None
) -> list[tuple[str, object]]:
    """The generators that can be reached, each under the first way that leads to it.

    Looked through: attributes, slots, items of lists, tuples and dicts, what a partial or a method is bound to, and for
    functions (also those of the objects' classes) their closures, defaults and, where they are the user's, the globals
    that they name. Not looked through: what libraries keep in their modules and classes, sets, which have no order,
    and items beyond the first ten thousand of a container.

    Args:
        roots: name and object; the names begin the ways.
        beside: objects that are not looked into.
        data: what an earlier search of the same roots found to be data; this one corrects it.

    Returns:
        Way (`dataset.transform.rng`) and generator: `random.Random`, NumPy's `Generator`, `RandomState` and bit
        generators, `torch.Generator`. Ways are the same in every process that holds the same objects.
    """
    return _Search(beside, data or KnownData()).run(roots)


def is_keyable(generator: object) -> bool:
    """Whether it can be seeded; the operating system's cannot."""
    return not isinstance(generator, random.SystemRandom)


class KnownData:
    """Long containers that held plain data when they were last looked through.

    One that is as long as it was then is taken to hold data still, so that ten thousand file names cost nothing the
    second time. They are kept as long as searches meet them.
    """

    LONG = 1000

    def __init__(self) -> None:
        self._before: dict[int, tuple[object, int]] = {}
        self._met: dict[int, tuple[object, int]] = {}

    def begin(self) -> None:
        """Another search: what it does not meet is let go."""
        self._before, self._met = self._met, {}

    def has(self, one: Any) -> bool:
        """Whether it was there before, and as long."""
        if self._before.get(id(one), (None, -1))[1] != len(one):
            return False
        self._met[id(one)] = (one, len(one))
        return True

    def add(self, one: Any) -> None:
        """It is data; short ones are not worth remembering."""
        if len(one) >= self.LONG:
            self._met[id(one)] = (one, len(one))


class _Search:
    def __init__(self, beside: Iterable[object], data: KnownData) -> None:
        data.begin()
        self.data = data
        self.wanted = _generator_types()
        self.kinds = _Kinds()
        # Objects are kept while their ids are.
        self.known: dict[int, object] = {id(one): one for one in beside}
        self.found: dict[str, object] = {}
        # What holds data comes last: a search that has to stop has seen every transform by then.
        self.objects: deque[tuple[str, object]] = deque()
        self.containers: deque[tuple[str, object]] = deque()

    def run(self, roots: Iterable[tuple[str, object]]) -> list[tuple[str, object]]:
        """Everything that is found from there."""
        for path, one in roots:
            self._meet(path, one)
        while self.objects or self.containers:
            if len(self.known) > OBJECTS_LOOKED_AT:
                warnings.warn(
                    f"samebits looked through {OBJECTS_LOOKED_AT} objects for generators, and stopped: one that lies "
                    "deeper is not found",
                    stacklevel=2,
                )
                break
            path, one = self.objects.popleft() if self.objects else self.containers.popleft()
            for step, inner in _inside(one, self.kinds):
                if id(inner) not in self.known:
                    self._meet(path + step, inner)
        return list(self.found.items())

    def _meet(self, path: str, one: object) -> None:
        # Not isinstance: that would ask the object what it is, and a proxy of something gone would raise.
        kind = type(one)
        if self.kinds.is_closed[kind] or id(one) in self.known or self._is_data(one, kind):
            return
        self.known[id(one)] = one
        if issubclass(kind, self.wanted):
            number = sum(known == path or known.startswith(f"{path}#") for known in self.found)
            self.found[f"{path}#{number}" if number else path] = one
        elif kind in _CONTAINERS:
            self.containers.append((path, one))
        else:
            self.objects.append((path, one))

    def _is_data(self, one: Any, kind: type) -> bool:
        if kind not in _PLAIN_CONTAINERS:
            return False
        if self.data.has(one):
            return True
        is_data = _holds_values_only(one, self.kinds)
        if is_data:
            self.data.add(one)
        return is_data


class _Kinds:
    """What is to know of types, looked up once for each.

    Attributes:
        is_closed: type → whether nothing is held by objects of it.
        form: type → how its objects are looked into.
        slots: type → names of attributes that are in no dictionary, as they are shown and as they are stored.
    """

    def __init__(self) -> None:
        self.is_closed, self.form = _Closed(), _Forms()
        self.slots: dict[type, list[tuple[str, str]]] = {}

    def slots_of(self, kind: type) -> list[tuple[str, str]]:
        """The slots of a type and of its bases."""
        if kind not in self.slots:
            self.slots[kind] = list(_slots(kind))
        return self.slots[kind]


class _Closed(dict[type, bool]):
    def __missing__(self, kind: type) -> bool:
        found = self[kind] = issubclass(kind, _CLOSED) or kind in (set, frozenset)
        return found


class _Forms(dict[type, str]):
    def __missing__(self, kind: type) -> str:
        kinds = {"library": ModuleType, "function": FunctionType, "method": MethodType, "type": type}
        found = next((name for name, one in kinds.items() if issubclass(kind, one)), "object")
        if issubclass(kind, torch.nn.Module) and not issubclass(kind, _CONTAINERS):
            found = "module"
        self[kind] = found
        return found


def _slots(kind: type) -> Iterator[tuple[str, str]]:
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            yield name, _mangled(base, name)


def _holds_values_only(one: Any, kinds: _Kinds) -> bool:
    """Whether it is plain data: nothing, numbers and text, or what datasets are made of, files with their classes."""
    items = one.values() if isinstance(one, dict) else one
    inner = set(map(type, itertools.islice(items, ITEMS_LOOKED_AT)))
    pairs = inner & {list, tuple}
    if not all(kinds.is_closed[one] for one in inner - pairs):
        return False
    if not pairs:
        return True
    if len(items) <= 8:
        return False
    found = itertools.islice(items, ITEMS_LOOKED_AT)
    inner_items = itertools.chain.from_iterable(
        found if inner == pairs else (one for one in found if type(one) in pairs)
    )
    kinds_within = set(map(type, itertools.islice(inner_items, 8 * ITEMS_LOOKED_AT)))
    return all(kinds.is_closed[one] for one in kinds_within) and next(inner_items, None) is None


def _generator_types() -> tuple[type, ...]:
    numpy_random = sys.modules.get("numpy.random")
    own = (random.Random, torch.Generator)
    if numpy_random is None:
        return own
    return (*own, numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator)


def _inside(one: Any, kinds: _Kinds) -> Iterable[tuple[str, object]]:
    kind = type(one)
    form = kinds.form[kind]
    if form == "module":
        # There are hundreds of them, and they hold nothing in any other way.
        return [*_attributes(one, kinds), (".<class>", kind)]
    if form == "library":
        return ()
    if form == "function":
        return _of_function(one)
    if form == "method":
        return [("", one.__self__), (".<function>", one.__func__)]
    if form == "type":
        return _of_class(one)
    if kind in _CONTAINERS:
        return _items(one, kind)
    return itertools.chain(_items(one, kind), _attributes(one, kinds), [(".<class>", kind)])


def _items(one: Any, kind: type) -> Iterator[tuple[str, object]]:
    # By the plain types' own methods: those of a subclass may read files, or draw.
    if issubclass(kind, dict):
        for _, (key, item) in zip(range(ITEMS_LOOKED_AT), dict.items(one), strict=False):
            if issubclass(type(key), str | int | tuple):
                yield f"[{key!r}]", item
        return
    for plain in (list, tuple, deque):
        if issubclass(kind, plain):
            for number, item in zip(range(ITEMS_LOOKED_AT), plain.__iter__(one), strict=False):
                yield f"[{number}]", item


def _attributes(one: object, kinds: _Kinds) -> list[tuple[str, object]]:
    kind = type(one)
    found = []
    for name in ("func", "args", "keywords") if kind.__name__ == "partial" else ():
        found.append((f".{name}", getattr(one, name, None)))
    try:
        own = object.__getattribute__(one, "__dict__")
    except (AttributeError, ReferenceError):
        own = {}
    if isinstance(own, dict):
        found += _of_dictionary(own, issubclass(kind, torch.nn.Module), kinds.is_closed)
    for name, stored in kinds.slots_of(kind):
        with suppress(AttributeError, ReferenceError):
            found.append((f".{name}", object.__getattribute__(one, stored)))
    return found


def _of_dictionary(own: dict[str, Any], is_module: bool, is_closed: _Closed) -> list[tuple[str, object]]:
    # Most attributes are numbers and texts, and of modules a dozen dicts without a hook: this is where the time goes.
    open_ones = [
        (f".{name}", value)
        for name, value in own.items()
        if not is_closed[type(value)] and (type(value) is not OrderedDict or value)
    ]
    if not is_module:
        return open_ones
    # A module's parameters are tensors; its children are what may hold anything.
    children = [(f".{name}", child) for name, child in own.get("_modules", {}).items()]
    return children + [pair for pair in open_ones if pair[0] not in _OF_MODULES]


def _mangled(kind: type, name: str) -> str:
    is_private = name.startswith("__") and not name.endswith("__")
    return f"_{kind.__name__.lstrip('_')}{name}" if is_private else name


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


def _names_in(code: Any) -> list[str]:
    """Names of a function's code and of the functions and comprehensions within it."""
    inner = [name for constant in code.co_consts if hasattr(constant, "co_names") for name in _names_in(constant)]
    return list(dict.fromkeys([*code.co_names, *inner]))


def _is_users(module: Any) -> bool:
    """Whether a module is the user's: libraries have thousands of classes and functions, and few generators in them."""
    return module is not None and (
        module.__name__ == "__main__" or is_user_file(getattr(module, "__file__", None) or "<")
    )
