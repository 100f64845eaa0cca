"""How an answer is laid out: its first line, and below it labels with what belongs to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

LABEL = 10


def laid_out(headline: str, rows: Iterable[tuple[str, str]]) -> str:
    """The whole answer; a row without a label goes on with what stands above it."""
    body = [f"  {label:<{LABEL}}{text}" for label, text in rows]
    return "\n".join([headline, *(line.rstrip() for line in body)])


def not_seen(what: Sequence[str]) -> list[tuple[str, str]]:
    """What the recordings cannot see in this command."""
    return [("not seen", text) for text in what] or [("coverage", "complete")]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table, the first row being its head; it stands a little further left than what has labels."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    return [f"    {line}".rstrip() for line in lines]
