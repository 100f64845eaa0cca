"""An answer as rows, computed once: a terminal and a page show the same ones, a first answer only those it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

Rows = list[tuple[str, str]]

# A first answer fits a small terminal; what is longer there are the names and paths that it holds.
WIDTH, LINES = 80, 10
LABEL = 10
INDENT = LABEL + 2
CODE = "    "
# What to change in the code, where all causes are confirmed and where one is only suspected.
FIXES = FIX, TRY = "fix", "try"

# How soon a row is left out of a first answer, by its label; what has no label goes with the label above it. Rows that
# are not named here are details.
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
class Told:
    """An answer for people.

    A row is a label and its text; one without a label goes on with what stands above it, one without a text is left
    out, and one whose text is indented is a line of the user's code.
    """

    headline: str
    rows: Sequence[tuple[str, str]] = ()
    table: Sequence[Sequence[str]] = ()  # between the two, the first row being its head
    parts: Sequence[Told] = ()  # answers that this one consists of, after all that
    column: int = LABEL  # how wide labels are

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", [row for row in self.rows if row[1]])

    @property
    def text(self) -> str:
        """The whole answer as text."""
        own = laid_out("\n".join([self.headline, *table(self.table)]), self.rows, self.column)
        return "\n\n".join([own, *(part.text for part in self.parts)])

    @property
    def all_rows(self) -> Rows:
        """Its rows and those of its parts, each below its headline."""
        return [*self.rows, *(row for part in self.parts for row in [("", part.headline), *part.all_rows])]

    @property
    def brief(self) -> str:
        """What is needed, and of the rest as much as ten lines hold; whole rows, nothing is shortened."""
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
    """Rows that are said together or not at all, with how soon they are left out."""
    label, group, level = "", cast("Rows", []), _DETAIL
    for row in rows:
        own = _OWN.get(row[0], _DETAIL) if row[0] else _FURTHER.get(label, _DETAIL)
        if row[1].startswith(CODE):
            own = _LINE if label == "cause" and len(group) == 1 and group[0][0] else _DETAIL
        goes_on = own == level and (not row[0] or row[0] == label in FIXES)
        if not goes_on:
            yield level, group
        label, group, level = row[0] or label, [*(group if goes_on else []), row], own
    yield level, group


def laid_out(headline: str, rows: Iterable[tuple[str, str]], column: int = LABEL) -> str:
    """The whole answer; a row without a label continues the one above it."""
    body = [f"  {label:<{column}}{text}" for label, text in rows]
    return "\n".join([headline, *(line.rstrip() for line in body)])


def unseen_rows(what: Sequence[str]) -> Rows:
    """What the recordings cannot see in this command."""
    return [("not seen", text) for text in what] or [("coverage", "everything these runs did was recorded")]


def counted(number: int | str, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{number} {noun}" if str(number) == "1" else f"{number} {noun}s"


def code(source: str) -> tuple[str, str]:
    """A line of the user's code below what is said of it."""
    return "", f"{CODE}{source}" if source else ""


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, the first row being its head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [f"    {line}".rstrip() for line in lines]
