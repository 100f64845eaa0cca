"""The little TOML that a lockfile needs, written in one way only: the same content is the same text, byte for byte.

Tables hold texts, whole numbers and lists of texts; keys are sorted. Python reads TOML and writes none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from samebits.base.errors import UsageError

Value: TypeAlias = "str | int | Sequence[str]"
Table: TypeAlias = Mapping[str, Value]
# A list that fits into so many columns stands in one line.
WIDTH = 100
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_NAMED = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPED = str.maketrans({chr(code): f"\\u{code:04X}" for code in (*range(32), 127)} | _NAMED)
_LARGEST = 2**63


def block(path: Sequence[str], table: Table) -> str:
    """A table with its head, ending with a newline; without a path, the keys before the first table.

    Raises:
        UsageError: something in it cannot be written as TOML.
    """
    head = f"[{'.'.join(map(_key, path))}]\n" if path else ""
    return head + "".join(f"{_line(name, table[name])}\n" for name in sorted(table))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _line(name: str, value: Value) -> str:
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise UsageError(f"{name} = {value} does not fit into the 64 bits of a TOML number")
        return f"{_key(name)} = {value}"
    if isinstance(value, str):
        return f"{_key(name)} = {_text(value)}"
    items = [_text(item) for item in value]
    line = f"{_key(name)} = [{', '.join(items)}]"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{_key(name)} = [", *(f"  {item}," for item in items), "]"])


def _text(value: str) -> str:
    half = next((one for one in value if "\ud800" <= one <= "\udfff"), None)
    if half is not None:
        raise UsageError(f"{half!r} is no character, so it cannot stand in a lockfile", "is it part of a file's name?")
    return f'"{value.translate(_ESCAPED)}"'
