"""Text on its way to a terminal: names, commands and lines of code may hold characters that steer it."""

from __future__ import annotations

import re

# Control characters except tab and newline, what turns the direction of text, and halves of characters.
_STEERING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, form: str = "") -> str:
    r"""The text with every such character shown as its number.

    >>> printable("\x1b[2J")
    '\\x1b[2J'

    `form` says how a number is written where that is laid down, such as `&#{};`; else it is as Python writes it.
    """
    return _STEERING.sub(lambda found: form.format(ord(found[0])) if form else ascii(found[0])[1:-1], text)
