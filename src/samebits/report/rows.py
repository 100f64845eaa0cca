"""An answer as rows: a terminal and a page show the same ones, and a brief answer shows only those that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

Rows = list[tuple[str, str]]

# A brief answer fits a small terminal, unless names and paths in it are longer.
WIDTH, LINES = 80, 10
LABEL = 10
INDENT = LABEL + 2
CODE = "    "
# What to change in the code, where all causes are confirmed and where one is only suspected.
FIXES = FIX, TRY = "fix", "try"

# How soon a row is left out of a brief answer, by its label; rows without a label by the label above them (`_FURTHER`).
# Rows that are not named here are details.
_NEEDED, _HELPFUL, _LINE, _KNOWN, _DETAIL = range(5)
_OWN = {
    **dict.fromkeys(("cause", "confirmed", "suspected", "op", "remedy", *FIXES, "rests on", "besides"), _NEEDED),
    **dict.fromkeys(("trained", "left out", "next", "patch", "applied"), _NEEDED),
    **dict.fromkeys(("replay", "seeded", "differs", "source", "script", "note", "untested", "not seen"), _HELPFUL),
    **dict.fromkeys(("made", "compare", "ran", "changes", "left"), _HELPFUL),
    **dict.fromkeys(("latent", "apply"), _LINE),
    **dict.fromkeys(("first", "varied", "pinned", "module", "took", "coverage"), _KNOWN),
}
_FURTHER = {**dict.fromkeys(("remedy", *FIXES), _HELPFUL), "cause": _LINE, "op": _KNOWN}


@dataclass(frozen=True)
class AnswerReport:
    """An answer in words, for people.

    A row is a label and its text. A row without a label continues the one above, a row without a text is left out, and
    a row whose text is indented is a line of the user's code.
    """

    headline: str
    rows: Sequence[tuple[str, str]] = ()
    table: Sequence[Sequence[str]] = ()  # between headline and rows; its first row is the head
    parts: Sequence[AnswerReport] = ()  # answers that this one consists of, below its rows
    column: int = LABEL  # the width of the column of labels

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", [row for row in self.rows if row[1]])

    @property
    def text(self) -> str:
        """The whole answer as text."""
        whole = laid_out("\n".join([self.headline, *table(self.table)]), self.rows, self.column)
        return "\n\n".join([whole, *(part.text for part in self.parts)])

    @property
    def all_rows(self) -> Rows:
        """The rows of the answer, and those of its parts, each part below its headline."""
        return [*self.rows, *(row for part in self.parts for row in [("", part.headline), *part.all_rows])]

    @property
    def brief(self) -> str:
        """The brief answer: the needed rows, and as many others as fit into ten lines; no row is shortened."""
        groups = [*_groups(self.rows)]
        kept = {at for at, (level, _) in enumerate(groups) if level == _NEEDED}
        room = LINES - 1 - sum(len(groups[at][1]) for at in kept)
        for wanted in (_HELPFUL, _LINE, _KNOWN):
            for at, (level, rows) in enumerate(groups):
                if level == wanted and len(rows) <= room and (rows[0][0] or at - 1 in kept):
                    kept.add(at)
                    room -= len(rows)
        return laid_out(self.headline, [row for at in sorted(kept) for row in groups[at][1]])


def _groups(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[int, Rows]]:
    """Groups of rows that are shown together or not at all, each with how soon it is left out."""
    label, group, level = "", cast("Rows", []), _DETAIL
    for row in rows:
        row_level = _OWN.get(row[0], _DETAIL) if row[0] else _FURTHER.get(label, _DETAIL)
        if row[1].startswith(CODE):
            row_level = _LINE if label == "cause" and len(group) == 1 and group[0][0] else _DETAIL
        goes_on = row_level == level and (not row[0] or row[0] == label in FIXES)
        if not goes_on:
            yield level, group
        label, group, level = row[0] or label, [*(group if goes_on else []), row], row_level
    yield level, group


def laid_out(headline: str, rows: Iterable[tuple[str, str]], column: int = LABEL) -> str:
    """Return headline and rows as text; a row without a label continues the one above it."""
    body = [f"  {label:<{column}}{text}" for label, text in rows]
    return "\n".join([headline, *(line.rstrip() for line in body)])


def unseen_rows(what: Sequence[str]) -> Rows:
    """Return rows for what the recordings could not see, or one that says that all was recorded."""
    return [("not seen", text) for text in what] or [("coverage", "everything these runs did was recorded")]


def counted(number: int | str, noun: str) -> str:
    """Return a number and its noun: `1 step`, `2 steps`."""
    return f"{number} {noun}" if str(number) == "1" else f"{number} {noun}s"


def source_row(source: str) -> tuple[str, str]:
    """Return the row of a line of the user's code, which stands below what is said about that line."""
    return "", f"{CODE}{source}" if source else ""


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table, whose first row is its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [f"    {line}".rstrip() for line in lines]
