"""Records as plain data and back: frozen dataclasses, through their type hints.

What a newer samebits added is ignored, what an older one lacked gets its default, and what has another shape raises
ValueError: nothing is guessed.
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
    """Have what a property gives written beside the fields of its record, below a key or its own name.

    `@property` stands above. A field says by `field(metadata={"key": ...})` that its key is not its name.
    """

    def marked(of: AnyCallable) -> AnyCallable:
        of.__dict__["key"] = key or of.__name__
        return of

    return marked


@cache
def keys(kind: Hashable) -> dict[str, tuple[str, object]]:
    """Key → attribute and type of all that is written of a record: its fields, then what its properties publish."""
    hints = get_type_hints(kind)
    found = {own.metadata.get("key", own.name): (own.name, hints[own.name]) for own in fields(cast("Any", kind))}
    for name, one in getmembers(kind, lambda one: isinstance(one, property) and hasattr(one.fget, "key")):
        found[one.fget.key] = name, get_type_hints(one.fget)["return"]
    return found


def to_data(value: object) -> object:
    """A record as JSON can hold it: dataclasses become dictionaries by `keys`, tuples and sets lists, paths text."""
    if isinstance(value, Site):
        return value.as_note()
    if is_dataclass(value) and not isinstance(value, type):
        return {key: to_data(getattr(value, name)) for key, (name, _) in keys(type(value)).items()}
    if isinstance(value, Mapping):
        return {str(name): to_data(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_data(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(str(one) for one in value)
    if isinstance(value, SamebitsError):
        return value.as_data()
    return str(value) if isinstance(value, Path) else value


def from_data(kind: type[T], value: object) -> T:
    """The record of a kind that `to_data` made plain data of.

    Raises:
        ValueError: it is something else.
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
        # What is larger is no float.
        is_number = isinstance(value, float) or (type(value) is int and abs(value) < 1 << 1023)
        return float(cast("float", _checked(is_number, kind, value)))
    if kind in (object, Any):
        return value
    is_flag = isinstance(value, bool)
    is_plain = isinstance(kind, type) and isinstance(value, kind) and is_flag == (kind is bool)
    return _checked(is_plain, kind, value)


def _read_record(kind: type, value: Mapping[str, object]) -> object:
    own = {field.name for field in fields(kind) if field.init}
    known = {name: _read(hint, value[key]) for key, (name, hint) in keys(kind).items() if name in own and key in value}
    try:
        return kind(**known)
    except TypeError as error:
        raise ValueError(f"no {kind.__name__}: {error}") from error


def _read_document(kind: type, value: Mapping[str, object]) -> object:
    """Of a dictionary, too, what is not known here stays: it is not made anew."""
    hints = get_type_hints(kind)
    missing = getattr(kind, "__required_keys__", frozenset[str]()) - value.keys()
    _checked(not missing, f"{kind.__name__} without {', '.join(sorted(missing))}", value)
    return {name: _read(hints.get(name, object), one) for name, one in value.items()}


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
        return {name: _read(inner[1], one) for name, one in _mapping(origin, value).items()}
    items = cast("list[object]", _checked(isinstance(value, list), origin, value))
    if origin is tuple and inner[1:] != (...,):
        _checked(len(items) == len(inner), origin, value)
        return tuple(_read(kind, one) for kind, one in zip(inner, items, strict=True))
    return cast("type[tuple[object, ...]]", origin)(_read(inner[0], one) for one in items)


def _mapping(kind: object, value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", _checked(isinstance(value, dict), kind, value))


def _checked(is_right: bool, kind: object, value: object) -> object:
    if not is_right:
        name = kind.__name__ if isinstance(kind, type) else str(kind)
        raise ValueError(f"{value!r} is not a valid {name}")
    return value
