"""Words for a patch."""

from __future__ import annotations

import shlex

from samebits.base.sites import shown_path
from samebits.checking.verdict import CheckVerdict, Patch
from samebits.report.places import place_words
from samebits.report.rows import Rows, counted, source_row

# A patch of at most so many lines is shown where it is offered.
SHOWN_LINES = 4


def patch_rows(verdict: CheckVerdict) -> Rows:
    """Return rows for a patch: its changes, whether it is proven, and what it leaves; or how to get one."""
    patch = verdict.patch
    if patch is None:
        return []
    if patch.proven is None and not patch.why and patch.lines and verdict.signal is None:
        command = " ".join(["samebits check --fix", *map(shlex.quote, verdict.options), verdict.command])
        shown = changed_lines(patch) if patch.lines <= SHOWN_LINES else []
        return [("apply", f"{command}     ({_size(patch)}, tried on a copy first)"), *map(source_row, shown)]
    rows = [("patch", f"{_size(patch)}: {_state(patch)}" if patch.lines else "none can be made")]
    if patch.proven:
        rows += [("", f"{mend.factor}: {mend.does}") for mend in patch.mends]
        rows += [("changes", effect) for effect in dict.fromkeys(mend.effect for mend in patch.mends)]
    for cause in patch.cannot:
        place = f", {cause.site.place}" if cause.site is not None else ""
        instead = f"; samebits run --pin {cause.factor} holds it still" if cause.factor in patch.pins else ""
        rows.append(("left", f"{cause.factor}{place}: {cause.why}{instead}"))
    return [*rows, ("applied", f"to {', '.join(map(shown_path, patch.files))}" if patch.applied else "")]


def changed_lines(patch: Patch) -> list[str]:
    """Return the lines that a patch removes and adds, without the names of files."""
    return [
        line for line in patch.diff.splitlines() if line.startswith(("-", "+")) and line[:4] not in ("--- ", "+++ ")
    ]


def _size(patch: Patch) -> str:
    return f"{counted(len(patch.files), 'file')}, {counted(patch.lines, 'line')}"


def _state(patch: Patch) -> str:
    with_pins = f" with --pin {' --pin '.join(patch.pins)}" if patch.pins else ""
    if patch.proven:
        until = "" if patch.is_complete else " in the steps looked at"
        return f"proven{with_pins}, {patch.agree} runs agree{until}"
    if patch.diverged is not None:
        pair = patch.diverged
        place = place_words(pair.divergence)
        return f"not enough: patched, runs {pair.a} and {pair.b} diverge {place}; nothing was applied"
    why = patch.why or "the proof was interrupted"
    return f"not proven: {why}; nothing was applied"
