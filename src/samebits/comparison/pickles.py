"""Reads a pickle without running anything in it: classes and functions become names, objects become what they hold."""

from __future__ import annotations

import math
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

Leaf = tuple[str, object]
# Calling these is safe: they only hold what they are given.
_HARMLESS: dict[tuple[str, str], object] = {
    ("collections", "OrderedDict"): OrderedDict,
    **{(name, kind.__name__): kind for name in ("builtins", "__builtin__") for kind in (set, frozenset, bytearray)},
    **{(name, kind.__name__): kind for name in ("builtins", "__builtin__") for kind in (complex, range, slice)},
    ("_codecs", "encode"): lambda text, encoding: text.encode("latin-1" if "latin" in encoding else "utf-8"),
}


class Unpickled:
    """Replaces an object whose class is known by name only: its constructor arguments, and what it was given later."""

    name = ""

    def __new__(cls, *args: object, **kwargs: object) -> Unpickled:
        self = object.__new__(cls)
        self.parts = {"": args, **kwargs} if kwargs else {"": args} if args else {}
        self.items = []
        return self

    parts: dict[str, object]
    items: list[object]

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        # The state of a class with slots is a pair: the instance dictionary, and the values of the slots.
        pair = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        dicts = [part for part in pair if isinstance(part, dict) and all(isinstance(key, str) for key in part)]
        names = [name for part in dicts for name in part]
        if len(dicts) == sum(part is not None for part in pair) and len({*names}) == len(names):
            for attributes in dicts:
                self.parts.update(attributes)
        else:
            self.parts["state"] = state

    def append(self, item: object) -> None:
        self.items.append(item)

    def extend(self, items: list[object]) -> None:
        self.items.extend(items)

    add = append

    def __setitem__(self, key: object, value: object) -> None:
        self.items.append((key, value))

    def __hash__(self) -> int:
        return id(self)


class _ArrayBehind(Unpickled):
    """An array in a file of joblib: its elements follow in the file itself, behind bytes that align them."""

    file = BytesIO()

    def __setstate__(self, state: object) -> None:
        super().__setstate__(state)
        dtype: Any = self.parts["dtype"]
        kind, width = dtype.parts[""][0][0], dtype.parts[""][0][1:]
        if kind == "O":
            self.parts["elements"] = read_next(self.file)
            return
        if self.parts.get("numpy_array_alignment_bytes"):
            self.file.read(self.file.read(1)[0])
        shape: Any = self.parts["shape"]
        self.parts["elements"] = self.file.read(math.prod(shape) * int(width) * (4 if kind == "U" else 1))


_OPEN = (dict, list, tuple, set, frozenset, Unpickled)


class _Reader(pickle.Unpickler):
    def __init__(self, file: BytesIO, persistent: Callable[[object], object] | None) -> None:
        super().__init__(file)
        self._file, self._persistent = file, persistent

    def find_class(self, module: str, name: str) -> object:
        if (module, name) == ("joblib.numpy_pickle", "NumpyArrayWrapper"):
            return type(name, (_ArrayBehind,), {"name": f"{module}.{name}", "file": self._file})
        return _HARMLESS.get((module, name)) or type(name, (Unpickled,), {"name": f"{module}.{name}"})

    def persistent_load(self, pid: object) -> object:
        if self._persistent is None:
            raise pickle.UnpicklingError("a persistent id")
        return self._persistent(pid)


def read_pickle(raw: bytes, persistent: Callable[[object], object] | None = None) -> object:
    """Return what one pickle holds, persistent ids resolved by `persistent`; ValueError where it cannot be read so."""
    file = BytesIO(raw)
    content = read_next(file, persistent)
    if file.tell() != len(raw):
        raise ValueError("something follows the pickle")
    return content


def read_next(file: BytesIO, persistent: Callable[[object], object] | None = None) -> object:
    """Return what the next of several pickles in a file holds; the next call reads the pickle after it."""
    try:
        return _Reader(file, persistent).load()
    except Exception as error:  # a malformed pickle can make the unpickler raise anything
        raise ValueError(str(error)) from error


def leaves(tree: object, path: str = "", whole: Callable[[Unpickled], object] = lambda _: None) -> Iterator[Leaf]:
    """Yield pairs of path and leaf, among them the order of keys; each object is entered once, where it is met first.

    `whole` returns the leaf that represents an object, or None where the object is to be entered.

    >>> list(leaves({"x": [1, 2]}))
    [('x[0]', 1), ('x[1]', 2)]
    """
    first_paths = dict[int, str]()
    waiting = [(path, tree)]
    while waiting:
        path, tree = waiting.pop()
        leaf = whole(tree) if isinstance(tree, Unpickled) else None
        if leaf is not None or not isinstance(tree, _OPEN):
            yield path, tree if leaf is None else leaf
        elif id(tree) in first_paths and not isinstance(tree, tuple):
            yield path, f"as {first_paths[id(tree)] or 'the whole'}"
        else:
            first_paths[id(tree)] = path
            parts = [(f"{path}{name}" if path else name.removeprefix("."), part) for name, part in _parts(tree)]
            waiting += reversed(parts)


def _parts(tree: Any) -> Iterator[tuple[str, object]]:
    if isinstance(tree, dict):
        if len(tree) != 1:
            yield ".keys", "\n".join(_key(key) for key in tree)
        yield from ((f".{_key(key)}", value) for key, value in tree.items())
    elif isinstance(tree, (set, frozenset)):
        # A set has no order: in which order its members were written depends on their hashes.
        yield "{}", "\n".join(sorted(_key(member) for member in tree))
    elif isinstance(tree, Unpickled):
        yield ".class", tree.name
        arguments: Any = tree.parts.get("", ())
        yield from ((f"({number})", value) for number, value in enumerate(arguments))
        yield from ((f".{name}", value) for name, value in tree.parts.items() if name)
        yield from ((f"[{number}]", item) for number, item in enumerate(tree.items))
    else:
        if not tree:
            yield "[]", ""
        yield from ((f"[{number}]", item) for number, item in enumerate(tree))


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    return repr([*leaves(key)] if isinstance(key, _OPEN) else key)
