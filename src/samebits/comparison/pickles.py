"""What is in a pickle, read without running anything of it: classes and functions are names, objects what they hold."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

Leaf = tuple[str, object]
# These hold what they are given, and do nothing.
_HARMLESS: dict[tuple[str, str], object] = {
    ("collections", "OrderedDict"): OrderedDict,
    **{(name, one.__name__): one for name in ("builtins", "__builtin__") for one in (set, frozenset, bytearray)},
    **{(name, one.__name__): one for name in ("builtins", "__builtin__") for one in (complex, range, slice)},
    ("_codecs", "encode"): lambda text, encoding: text.encode("latin-1" if "latin" in encoding else "utf-8"),
}


class Unpickled:
    """An object of a class that is known by its name only: what it was made of, and what it was given since."""

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
        # With slots: what is in the dictionary, and what is in the slots.
        pair = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        own = [one for one in pair if isinstance(one, dict) and all(isinstance(key, str) for key in one)]
        if len(own) == sum(one is not None for one in pair):
            for one in own:
                self.parts.update(one)
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


_OPEN = (dict, list, tuple, set, frozenset, Unpickled)


class _Reader(pickle.Unpickler):
    def __init__(self, file: BytesIO, persistent: Callable[[object], object] | None) -> None:
        super().__init__(file)
        self._persistent = persistent

    def find_class(self, module: str, name: str) -> object:
        return _HARMLESS.get((module, name)) or type(name, (Unpickled,), {"name": f"{module}.{name}"})

    def persistent_load(self, pid: object) -> object:
        if self._persistent is None:
            raise pickle.UnpicklingError("a persistent id")
        return self._persistent(pid)


def read_pickle(raw: bytes, persistent: Callable[[object], object] | None = None) -> object:
    """What one pickle holds, with what persistent ids stand for; ValueError where it cannot be read so."""
    file = BytesIO(raw)
    found = read_next(file, persistent)
    if file.tell() != len(raw):
        raise ValueError("something follows the pickle")
    return found


def read_next(file: BytesIO, persistent: Callable[[object], object] | None = None) -> object:
    """What the next of several pickles holds; what follows it is read next."""
    try:
        return _Reader(file, persistent).load()
    except Exception as error:  # whatever a strange pickle makes of the unpickler
        raise ValueError(str(error)) from error


def leaves(tree: object, path: str = "", whole: Callable[[Unpickled], object] = lambda _: None) -> Iterator[Leaf]:
    """Pairs of path and leaf, and the order of the keys; each object once, where it is met first.

    `whole` says what stands for an object, None where it is to be looked into.

    >>> list(leaves({"x": [1, 2]}))
    [('x[0]', 1), ('x[1]', 2)]
    """
    seen = set[int]()
    waiting = [(path, tree)]
    while waiting:
        path, tree = waiting.pop()
        known = whole(tree) if isinstance(tree, Unpickled) else None
        if known is not None or not isinstance(tree, _OPEN):
            yield path, tree if known is None else known
        elif id(tree) in seen and not isinstance(tree, tuple):
            yield path, "as before"
        else:
            seen.add(id(tree))
            parts = [(f"{path}{name}" if path else name.removeprefix("."), one) for name, one in _parts(tree)]
            waiting += reversed(parts)


def _parts(tree: Any) -> Iterator[tuple[str, object]]:
    if isinstance(tree, dict):
        if len(tree) > 1:
            yield ".keys", "\n".join(_key(key) for key in tree)
        yield from ((f".{_key(key)}", one) for key, one in tree.items())
    elif isinstance(tree, (set, frozenset)):
        # A set has no order; where one was written is the matter of its hashes.
        yield "{}", "\n".join(sorted(_key(one) for one in tree))
    elif isinstance(tree, Unpickled):
        yield ".class", tree.name
        made: Any = tree.parts.get("", ())
        yield from ((f"({number})", one) for number, one in enumerate(made))
        yield from ((f".{name}", one) for name, one in tree.parts.items() if name)
        yield from ((f"[{number}]", one) for number, one in enumerate(tree.items))
    else:
        if not tree:
            yield "[]", ""
        yield from ((f"[{number}]", one) for number, one in enumerate(tree))


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    return repr([*leaves(key)] if isinstance(key, _OPEN) else key)
