"""Draws an answer for a terminal: wrapped under its column, and coloured where colours are wanted.

Nothing is added and nothing is shortened: without colours, and where the terminal is wide enough, it is the plain text.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from samebits.report.rows import CODE, INDENT

# "  label     text": two spaces, a column for labels, the text.
_LABEL = re.compile(r"^  (?P<label>\*|\S.{0,9}?) +(?:(?<=^.{12})|(?<=\*.))\S")
_COLOURS = {
    "same bits": "bold green",
    "recommended": "bold green",
    "different bits": "bold red",
    "undecided": "bold yellow",
    "no set of pins": "bold yellow",
}
_WORDS = (
    (r"^unknown:", "yellow"),
    (r"\bno difference measured\b|(?<=\d) =(?=  )", "dim"),
    (r"(?<=  )no(?=  )", "red"),
)


def draw_answer(text: str, width: int, colour: bool = True) -> str:
    """Return the text of an answer for a terminal of `width` columns; a longer word is not cut, and sticks out."""
    from rich.console import Console
    from rich.text import Text

    console = Console(width=width, force_terminal=colour, color_system="standard" if colour else None, highlight=False)
    with console.capture() as capture:
        for number, line in enumerate(_wrapped(text, width)):
            shown = Text(line)
            if number == 0 or not line.startswith("  "):
                shown.stylize(next((style for start, style in _COLOURS.items() if text.startswith(start)), "bold"))
            else:
                for style, start, end in _styles(line):
                    shown.stylize(style, start, end)
            console.print(shown, soft_wrap=True)
    return capture.get().rstrip("\n")


def _wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of an answer, broken into pieces that fit, each under its column."""
    first, *rest = text.split("\n")
    yield from _broken("", first, width)
    for line in rest:
        start = max(INDENT, len(line) - len(line.lstrip()))
        yield from _broken(line[:start], line[start:], width)


def _broken(head: str, body: str, width: int) -> list[str]:
    """Break the text next to a label (`head`) between words, so that it stays under its column; runs of spaces stay."""
    pieces = textwrap.wrap(
        body, max(1, width - len(head)), break_long_words=False, break_on_hyphens=False,
        expand_tabs=False, replace_whitespace=False,
    ) or [""]  # fmt: skip
    return [(head if number == 0 else " " * len(head)) + piece for number, piece in enumerate(pieces)]


def _styles(line: str) -> Iterator[tuple[str, int, int]]:
    """The styles of a line, each with its start and end: for the label, for code, and for some words of the text."""
    if found := _LABEL.match(line):
        yield {"confirmed": "green", "suspected": "yellow"}.get(found["label"], "cyan"), *found.span("label")
    if line.startswith(CODE, INDENT):
        yield "bold", INDENT, len(line)
        return
    for pattern, style in _WORDS:
        for match in re.finditer(pattern, line[INDENT:]):
            yield style, INDENT + match.start(), INDENT + match.end()
