"""What runs found that earlier ones had left on disk: which of it to suspect, and in which words to tell it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from samebits.base.sites import shown_path
from samebits.checking.facts import Entry, Left
from samebits.checking.verdict import Run
from samebits.factors.context import SiteKey

# Of several ways in which one path was found, the one that says most: a file that is read was asked for before.
_WAYS = ("read", "listed", "made", "tested")
_WORDS = {
    "read": "read {path}, which run {writer} wrote",
    "listed": "listed {path}, where run {writer} had left something",
    "made": "was to make {path}, which run {writer} had made",
    "tested": "asked for {path}, as run {writer} had left it",
}

Finding = tuple[Run, Left]


def findings(runs: Iterable[Run]) -> list[Finding]:
    """What was found, each path once, by the first run that found it."""
    found: dict[str, Finding] = {}
    for run in runs:
        for left in run.facts.left:
            before = found.get(left.path)
            if before is None or (before[0] is run and _WAYS.index(left.how) < _WAYS.index(before[1].how)):
                found[left.path] = (run, left)
    return list(found.values())


def suspicious(runs: Sequence[Run]) -> tuple[Entry, ...]:
    """The lines that found something from which a later run can be kept, what was read first."""
    lines: dict[SiteKey, list[Finding]] = {}
    for run, left in sorted(findings(runs), key=lambda one: _WAYS.index(one[1].how)):
        if not left.obstacle:
            lines.setdefault(left.site.key, []).append((run, left))
    return tuple(_entry(own) for own in lines.values())


def obstacles(runs: Sequence[Run]) -> list[str]:
    """What was found and cannot be taken away from a later run, each with the reason."""
    return [
        f"{describe(run, left)}, {left.site.place}: {left.obstacle}" for run, left in findings(runs) if left.obstacle
    ]


def reads_content(runs: Sequence[Run]) -> bool:
    """Whether runs may agree only because a later one read what an earlier one had written.

    What asks for a file reads it as a rule, and libraries in C and Rust do so unseen. A folder is only to be there.
    """
    return any(
        not left.obstacle and (left.how == "read" or (left.how == "tested" and not left.is_folder))
        for _, left in findings(runs)
    )


def found_at(runs: Sequence[Run], keys: Iterable[SiteKey]) -> list[Left]:
    """What was found on these lines."""
    chosen = set(keys)
    return [left for _, left in findings(runs) if left.site.key in chosen]


def describe(run: Run, left: Left) -> str:
    """`run 2 read ckpt/last.pt, which run 1 wrote`."""
    return f"run {run.id} {_WORDS[left.how].format(path=shown_path(left.path), writer=left.writer)}"


def _entry(found: Sequence[Finding]) -> Entry:
    run, left = found[0]
    more = f", and {len(found) - 1} more" if len(found) > 1 else ""
    return Entry(describe(run, left) + more, left.site, left.source, run.facts.script)
