"""What is known of objects, by identity and weakly: an address that is used again is another object."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar
from weakref import ref

Value = TypeVar("Value")


class Identities(Generic[Value]):
    """A dictionary whose keys are objects themselves, however they compare, and are not held alive by it.

    Args:
        died: called with the value of one that has died, in whatever thread and place it died.
    """

    def __init__(self, died: Callable[[Value], None] = lambda _: None) -> None:
        self._died = died
        self._known: dict[int, tuple[ref[object], Value]] = {}

    def get(self, thing: object) -> Value | None:
        found = self._known.get(id(thing))
        return found[1] if found is not None and found[0]() is thing else None

    def set(self, thing: object, value: Value) -> None:
        self._known[id(thing)] = (ref(thing, self._dropper(id(thing))), value)

    def __contains__(self, thing: object) -> bool:
        return self.get(thing) is not None

    def alive(self) -> Iterator[tuple[object, Value]]:
        """Those that still live, in the order in which they came."""
        for reference, value in list(self._known.values()):
            thing = reference()
            if thing is not None:
                yield thing, value

    def values(self) -> list[Value]:
        """In the order in which they came."""
        return [value for _, value in list(self._known.values())]

    def _dropper(self, number: int) -> Any:
        known, died = self._known, self._died

        def drop(dead: object) -> None:
            found = known.get(number)
            if found is not None and found[0] is dead:
                del known[number]
                died(found[1])

        return drop


class Weak:
    """One object that is not held alive; asked whether something is it."""

    __slots__ = ("_reference", "version")

    def __init__(self, thing: object) -> None:
        self._reference = ref(thing)
        self.version = version_of(thing)

    def is_(self, thing: object) -> bool:
        return self._reference() is thing

    def is_unchanged(self, thing: object) -> bool:
        """Whether it is this very tensor, and nothing was written to it since, as far as torch knows."""
        return self._reference() is thing and self.version is not None and self.version == version_of(thing)

    @property
    def thing(self) -> object:
        return self._reference()


def version_of(tensor: Any) -> int | None:
    """How often a tensor was written to; None where torch does not count (inference tensors)."""
    try:
        return int(tensor._version)
    except (AttributeError, RuntimeError):
        return None
