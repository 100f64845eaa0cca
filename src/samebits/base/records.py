"""Records (frozen dataclasses) as plain data for JSON, and back, guided by their type hints.

Keys that only a newer samebits knows are ignored, keys that an older one did not write get their default, and a value
of another shape raises ValueError: nothing is guessed.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from inspect import getmembers
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

from samebits.base.errors import SamebitsError, error_from_data
from samebits.base.sites import Site

T = TypeVar("T")
AnyCallable = TypeVar("AnyCallable", bound=Callable[..., object])


def published(key: str = "") -> Callable[[AnyCallable], AnyCallable]:
    """Mark a property whose value is written next to the fields of its record, under `key` or its own name.

    `@property` goes above this decorator. A field sets another key by `field(metadata={"key": ...})`.
    """

    def marked(of: AnyCallable) -> AnyCallable:
        of.__dict__["key"] = key or of.__name__
        return of

    return marked


@cache
def keys(kind: Hashable) -> dict[str, tuple[str, object]]:
    """Map each key that is written for a record to attribute and type: its fields, then its published properties."""
    hints = get_type_hints(kind)
    written = {f.metadata.get("key", f.name): (f.name, hints[f.name]) for f in fields(cast("Any", kind))}
    for name, member in getmembers(kind, lambda one: isinstance(one, property) and hasattr(one.fget, "key")):
        written[member.fget.key] = name, get_type_hints(member.fget)["return"]
    return written


def to_data(value: object) -> object:
    """Return a value for JSON: a dataclass as a dictionary by `keys`, a tuple or set as a list, a path as text."""
    if isinstance(value, Site):
        return value.as_note()
    if is_dataclass(value) and not isinstance(value, type):
        return {key: to_data(getattr(value, name)) for key, (name, _) in keys(type(value)).items()}
    if isinstance(value, Mapping):
        return {str(name): to_data(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_data(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(str(item) for item in value)
    if isinstance(value, SamebitsError):
        return value.as_data()
    return str(value) if isinstance(value, Path) else value


def from_data(kind: type[T], value: object) -> T:
    """Return the record of type `kind` that `to_data` turned into plain data.

    Raises:
        ValueError: the data does not have the shape of the type.
    """
    return cast("T", _read(kind, value))


def _read(kind: object, value: object) -> object:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_one_of(inner, value)
    if origin is Literal:
        return _checked(value in inner, kind, value)
    if origin is not None:
        return _read_many(origin, inner, value)
    if kind is Site:
        return Site.from_note(_mapping(kind, value))
    if kind is Path:
        return Path(str(_checked(isinstance(value, str), kind, value)))
    if kind is SamebitsError:
        return error_from_data(_mapping(kind, value))
    if isinstance(kind, type) and is_dataclass(kind):
        return _read_record(kind, _mapping(kind, value))
    if is_typeddict(kind):
        return _read_document(cast("type", kind), _mapping(kind, value))
    if kind is float:
        # A larger integer cannot become a float.
        is_number = isinstance(value, float) or (type(value) is int and abs(value) < 1 << 1023)
        return float(cast("float", _checked(is_number, kind, value)))
    if kind in (object, Any):
        return value
    is_flag = isinstance(value, bool)
    is_plain = isinstance(kind, type) and isinstance(value, kind) and is_flag == (kind is bool)
    return _checked(is_plain, kind, value)


def _read_record(kind: type, value: Mapping[str, object]) -> object:
    names = {field.name for field in fields(kind) if field.init}
    args = {name: _read(hint, value[key]) for key, (name, hint) in keys(kind).items() if name in names and key in value}
    try:
        return kind(**args)
    except TypeError as error:
        raise ValueError(f"no {kind.__name__}: {error}") from error


def _read_document(kind: type, value: Mapping[str, object]) -> object:
    """Read a TypedDict; unlike in a record, keys that it does not declare are kept."""
    hints = get_type_hints(kind)
    missing = getattr(kind, "__required_keys__", frozenset[str]()) - value.keys()
    _checked(not missing, f"{kind.__name__} without {', '.join(sorted(missing))}", value)
    return {name: _read(hints.get(name, object), item) for name, item in value.items()}


def _read_one_of(kinds: tuple[object, ...], value: object) -> object:
    if value is None and type(None) in kinds:
        return None
    *others, last = (kind for kind in kinds if kind is not type(None))
    for kind in others:
        with suppress(ValueError):
            return _read(kind, value)
    return _read(last, value)


def _read_many(origin: object, inner: tuple[object, ...], value: object) -> object:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {name: _read(inner[1], item) for name, item in _mapping(origin, value).items()}
    items = cast("list[object]", _checked(isinstance(value, list), origin, value))
    if origin is tuple and inner[1:] != (...,):
        _checked(len(items) == len(inner), origin, value)
        return tuple(_read(kind, item) for kind, item in zip(inner, items, strict=True))
    return cast("type[tuple[object, ...]]", origin)(_read(inner[0], item) for item in items)


def _mapping(kind: object, value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", _checked(isinstance(value, dict), kind, value))


def _checked(is_right: bool, kind: object, value: object) -> object:
    if not is_right:
        name = kind.__name__ if isinstance(kind, type) else str(kind)
        raise ValueError(f"{value!r} is not a valid {name}")
    return value
