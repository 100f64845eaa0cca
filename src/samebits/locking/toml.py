"""The little TOML that a lockfile needs, written in one way only: the same content is the same text, byte for byte.

Tables hold texts, whole numbers, yes and no, and lists of texts; keys are sorted. Python reads TOML and writes none.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from samebits.base.errors import LockfileError, UsageError

Value: TypeAlias = "str | int | bool | Sequence[str]"
Table: TypeAlias = Mapping[str, Value]
# A list that fits into so many columns stands in one line.
WIDTH = 100
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_LARGEST = 2**63


def block(path: Sequence[str], table: Table) -> str:
    """A table with its head, ending with a newline; without a path, the keys before the first table.

    Raises:
        UsageError: something in it cannot be written as TOML.
    """
    head = f"[{'.'.join(map(key, path))}]\n" if path else ""
    return head + "".join(f"{_line(name, table[name])}\n" for name in sorted(table))


def key(name: str) -> str:
    """A name as a key: bare where that is allowed.

    >>> key("test_a"), key("a test")
    ('test_a', '"a test"')
    """
    return name if _BARE.fullmatch(name) else _text(name)


def parsed(text: str) -> dict[str, Any]:
    """What TOML says.

    Raises:
        ValueError: it is none.
        LockfileError: there is nothing to read it with, on Python 3.10.
    """
    # Part of Python from 3.11 on; before, a dependency of ours.
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    try:
        found: dict[str, Any] = importlib.import_module(name).loads(text)
    except ImportError as error:
        python = f"Python {sys.version_info[0]}.{sys.version_info[1]}"
        raise LockfileError(
            f"cannot be read: {python} needs the package {name} for it", f"pip install {name}"
        ) from error
    return found


def _line(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return f"{key(name)} = {'true' if value else 'false'}"
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise UsageError(f"{name} = {value} does not fit into the 64 bits of a TOML number")
        return f"{key(name)} = {value}"
    if isinstance(value, str):
        return f"{key(name)} = {_text(value)}"
    items = [_text(item) for item in value]
    line = f"{key(name)} = [{', '.join(items)}]"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{key(name)} = [", *(f"  {item}," for item in items), "]"])


def _text(value: str) -> str:
    return f'"{"".join(map(_character, value))}"'


def _character(one: str) -> str:
    if one in _ESCAPED:
        return _ESCAPED[one]
    if one < " " or one == "\x7f":
        return f"\\u{ord(one):04X}"
    if "\ud800" <= one <= "\udfff":
        raise UsageError(f"{one!r} is no character, so it cannot stand in a lockfile", "is it part of a file's name?")
    return one
