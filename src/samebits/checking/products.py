"""Where two runs have made something else, as a place of divergence."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.base.sites import shown_path
from samebits.checking.verdict import Run
from samebits.comparison.contents import is_digest
from samebits.comparison.locate import Divergence, Which
from samebits.comparison.products import PRINTED, Unlike


def place_of(a: Run, b: Run, found: Sequence[Unlike]) -> Divergence | None:
    """Where two runs have made something else; None where nothing was found."""
    if not found:
        return None
    first = found[0]
    name = f"{_file(a, first)}: {first.key[1]}" if first.key[1] else _file(a, first)
    if first.a is None or first.b is None:
        only: Which = "second" if first.a is None else "first"
        return Divergence(a.steps, "product", name, differing=len(found), only_in=only)
    return Divergence(a.steps, "product", name, differing=len(found), ending=_apart(first.a, first.b))


def _file(run: Run, one: Unlike) -> str:
    """The file, with the line that wrote it where that is known."""
    if not one.path:
        return PRINTED
    site = run.facts.wrote.get(one.path)
    return shown_path(one.path) if site is None else f"{shown_path(one.path)} ({site.place})"


def _apart(a: str, b: str) -> str:
    # Digests say no more than that they differ.
    return "" if is_digest(a) or is_digest(b) else f"{a} and {b}"
