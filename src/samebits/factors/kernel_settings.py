"""Settings of torch that choose kernels, read where this version has them: a replay of one operation needs them again.

A setting is known by its place below `torch`. Its value is what the attribute holds; of a function it is what it was
called with, as a list of arguments or as a dictionary of keywords.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from types import ModuleType


def attributes(torch: ModuleType, *places: str) -> dict[str, object]:
    """Place (`backends.cudnn.benchmark`) → value; without those that this torch does not have or refuses to tell."""
    found = {place: answer(lambda place=place: attrgetter(place)(torch)) for place in places}  # type: ignore[misc]
    return {place: value for place, value in found.items() if value is not None}


def answer(ask: Callable[[], object]) -> object:
    """What `ask` returns, None where this torch cannot say; older switches refuse to answer beside newer ones."""
    try:
        found = ask()
    except (RuntimeError, AttributeError, TypeError):
        return None
    # Older switches may answer with a pair: on, and with splitting allowed.
    return found if isinstance(found, bool | int | str) else None
