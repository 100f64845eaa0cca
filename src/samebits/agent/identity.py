"""What is known of objects, by identity and weakly: an address that is used again is another object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import ref

Value = TypeVar("Value")


class Watched(Generic[Value]):
    """What is known of objects, which are not held alive; `died` is called with it wherever one of them dies."""

    def __init__(self, died: Callable[[Value], None]) -> None:
        self._died = died
        self._known: dict[int, tuple[ref[object], Value]] = {}

    def get(self, thing: object) -> Value | None:
        found = self._known.get(id(thing))
        return found[1] if found is not None and found[0]() is thing else None

    def set(self, thing: object, value: Value) -> None:
        known, number, died = self._known, id(thing), self._died

        def drop(dead: object) -> None:
            found = known.get(number)
            if found is not None and found[0] is dead:
                del known[number]
                died(found[1])

        known[number] = ref(thing, drop), value

    def values(self) -> list[Value]:
        return [value for _, value in list(self._known.values())]


class Weak(ref[Any]):
    """One object that is not held alive, and how often it was written to by then."""

    __slots__ = ("version",)

    def __init__(self, thing: object) -> None:
        self.version = version_of(thing)

    def is_unchanged(self, thing: object) -> bool:
        """Whether it is this very tensor, and nothing was written to it since, as far as torch knows."""
        return self() is thing and self.version is not None and self.version == version_of(thing)


def version_of(tensor: Any) -> int | None:
    """How often a tensor was written to; None where torch does not count (inference tensors)."""
    try:
        return int(tensor._version)
    except (AttributeError, RuntimeError):
        return None
