"""Answers as data: a key of a document is what its record calls so; only what it calls otherwise is written down."""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

T = TypeVar("T")
Otherwise = Callable[[Any], Mapping[str, object]]
_OTHERWISE: dict[type, Otherwise] = {}


def otherwise(kind: type) -> Callable[[Otherwise], Otherwise]:
    """Say which keys of a document are no attributes of its record, and what they hold."""

    def known(keys: Otherwise) -> Otherwise:
        _OTHERWISE[kind] = keys
        return keys

    return known


def encoded(kind: type[T], record: object, /, **given: object) -> T:
    """The document of a record.

    Args:
        kind: its type, one of `report.documents`.
        record: has an attribute for every key that is neither given nor known `otherwise`. What the document may
            lack is left out where the record has none.
        given: keys.
    """
    own = {**(_OTHERWISE[kind](record) if kind in _OTHERWISE else {}), **given}
    required = cast("frozenset[str]", getattr(kind, "__required_keys__", frozenset()))
    found = {
        name: _as(hint, own[name] if name in own else getattr(record, name))
        for name, hint in _hints(cast("Hashable", kind)).items()
        if name in own or name in required or hasattr(record, name)
    }
    return cast("T", found)


@cache
def _hints(kind: Hashable) -> dict[str, object]:
    return get_type_hints(kind)


def _as(hint: object, value: object) -> object:
    origin, inner = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if origin in (Union, types.UnionType):
        return _as(next(one for one in inner if one is not type(None)), value)
    if origin is list:
        return [_as(inner[0], one) for one in cast("list[object]", value)]
    if is_typeddict(hint) and not isinstance(value, dict):
        return encoded(cast("type", hint), value)
    return str(value) if isinstance(value, Path) else value
