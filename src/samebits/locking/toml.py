"""Writes plain data as TOML: Python can only read it.

The same data give the same text: keys are sorted, and a key whose value is empty is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from samebits.base.errors import UsageError

# A list that fits into this many columns is written on one line.
WIDTH = 100
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(data: Mapping[str, object], path: tuple[str, ...] = ()) -> str:
    """Return a table with its head and all tables in it; without a path, the whole file.

    Raises:
        UsageError: a text holds half a character (a lone surrogate).
    """
    tables = {name: one for name, one in sorted(data.items()) if isinstance(one, Mapping)}
    plain = {name: one for name, one in sorted(data.items()) if name not in tables and one not in ("", [])}
    lines = [f"{_key(name)} = {_value(one)}\n" for name, one in plain.items()]
    head = f"[{'.'.join(map(_key, path))}]\n" if path and lines else ""
    parts = [head + "".join(lines), *(toml_text(one, (*path, name)) for name, one in tables.items())]
    return "\n".join(filter(None, parts))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _quoted(name)


def _value(value: object) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        pairs = (f"{_key(name)} = {_value(one)}" for name, one in sorted(value.items()))
        return f"{{{', '.join(pairs)}}}"
    if not isinstance(value, list):
        return json.dumps(value)
    items = [_value(one) for one in value]
    line = f"[{', '.join(items)}]"
    return line if len(line) <= WIDTH else "\n".join(["[", *(f"  {item}," for item in items), "]"])


def _quoted(text: str) -> str:
    surrogate = next((one for one in text if "\ud800" <= one <= "\udfff"), None)
    if surrogate is not None:
        raise UsageError(
            f"{surrogate!r} is not a character, so it cannot stand in a lockfile", "is it part of a file's name?"
        )
    # JSON escapes every character that TOML wants escaped, except for this one.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
