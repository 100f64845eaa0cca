"""Text for people: lists of names, and text from elsewhere without characters that control a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Control characters except tab and newline, marks that change the direction of text, and surrogates.
_STEERING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, form: str = "") -> str:
    r"""Return a text in which every character that could control a terminal is replaced by its number.

    >>> printable("\x1b[2J")
    '\\x1b[2J'

    `form` is the format of a number, such as `&#{};`; without one, the number is written as Python escapes it.
    """
    return _STEERING.sub(lambda found: form.format(ord(found[0])) if form else ascii(found[0])[1:-1], text)


def listed(names: Sequence[str], most: int = 1, noun: str = "") -> str:
    """Return a text with the first names, and the number of those left out.

    >>> listed(["a.pt", "b.pt", "c.pt", "d.pt"], 2, "file")
    'a.pt, b.pt and 2 more files'
    """
    more = len(names) - most
    rest = f" and {more} more {noun}{'s' if noun and more > 1 else ''}".rstrip() if more > 0 else ""
    return f"{', '.join(names[:most])}{rest}"
