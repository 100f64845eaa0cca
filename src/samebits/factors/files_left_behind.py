"""files-left-behind: what an earlier run of the same script left on disk."""

from __future__ import annotations

from samebits.base.sites import is_in_copy
from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext


class FilesLeftBehind(Factor):
    """Runs that follow one another in one folder find what the earlier ones wrote there.

    A checkpoint that is resumed if it exists, a cache that the first run fills, a history that is appended and read
    back, a number that counts the folders of earlier runs: the second run then does something else than the first.
    Pinned, every run starts in a fresh copy of the working folder (`--fresh-copy`); released, in a copy that holds what
    earlier runs left. Files outside the working folder are noticed, and not copied.
    """

    name = "files-left-behind"
    scope = "environment"
    summary = "runs share the working folder: what one leaves there, the next one finds"
    explanation = "{what}"
    too_late = "the start of the script"
    fix = "start every training in a folder of its own, or let {place} not pick up what an earlier one left"
    fix_unplaced = "start every training in a folder of its own"
    pinned_by_default = False
    has_sites = True
    by_copy = True

    def observe(self, context: FactorContext | None = None) -> Observation:
        if not is_in_copy():
            return Observation("the working folder", False, can_pin=False, reason="only `check --fresh-copy` copies it")
        if context is not None and context.mode == "varied":
            return Observation("a copy with what earlier runs left", True)
        return Observation("a copy of its own", True)
