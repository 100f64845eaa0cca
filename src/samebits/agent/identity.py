"""Facts about objects, kept by identity and weakly: an address that is used again is another object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import ref

Value = TypeVar("Value")


class WeakValues(Generic[Value]):
    """Keeps a value for each object, and no object alive; `died` is called with the value wherever its object dies."""

    def __init__(self, died: Callable[[Value], None]) -> None:
        self._died = died
        self._known: dict[int, tuple[ref[object], Value]] = {}

    def get(self, thing: object) -> Value | None:
        entry = self._known.get(id(thing))
        return entry[1] if entry is not None and entry[0]() is thing else None

    def set(self, thing: object, value: Value) -> None:
        entries, number, died = self._known, id(thing), self._died

        def drop(dead: object) -> None:
            entry = entries.get(number)
            if entry is not None and entry[0] is dead:
                del entries[number]
                died(entry[1])

        entries[number] = ref(thing, drop), value

    def values(self) -> list[Value]:
        return [value for _, value in list(self._known.values())]


class VersionedRef(ref[Any]):
    """A weak reference to an object, with how often the object had been written to when the reference was made."""

    __slots__ = ("version",)

    def __init__(self, thing: object) -> None:
        self.version = version_of(thing)

    def is_unchanged(self, thing: object) -> bool:
        """Whether this refers to `thing`, a tensor, and nothing was written to it since, as far as torch knows."""
        return self() is thing and self.version is not None and self.version == version_of(thing)


def version_of(tensor: Any) -> int | None:
    """Return how often a tensor was written to; None where torch does not count (inference tensors)."""
    try:
        return int(tensor._version)
    except (AttributeError, RuntimeError):
        return None
