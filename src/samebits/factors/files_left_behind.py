"""files-left-behind: what an earlier run of the same script left on disk."""

from __future__ import annotations

from typing import ClassVar

from samebits.base.sites import is_in_copy
from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext

# Witnessed instead of a called function where the leftover lies outside of the working folder.
OUTSIDE = "outside"


class FilesLeftBehind(Factor):
    """Runs that follow one another in one folder find what the earlier ones wrote there.

    A checkpoint that is resumed if it exists, a cache that the first run fills, a history that is appended and read
    back, a number that counts the folders of earlier runs: the second run then does something else than the first.
    The runs of a check each begin in a copy of the working folder, so none finds anything of another one; a script that
    asks for what it writes later is run once more in the folder that a whole run has left, and that is the experiment.
    Files outside the working folder are noted, and not copied.
    """

    name = "files-left-behind"
    scope = "environment"
    summary = "runs share the working folder: what one leaves there, the next one finds"
    explanation = "{what}"
    too_late = "the start of the script"
    fix = "start every training in a folder of its own, or make it ignore what an earlier one left"
    fixes: ClassVar = {OUTSIDE: "delete what {place} finds before every training, or make it once before the first one"}
    pinned_by_default = False
    has_sites = True
    by_folder = True

    def observe(self, context: FactorContext | None = None) -> Observation:
        if not is_in_copy():
            return Observation("the working folder", False, can_pin=False, reason="only `samebits check` copies it")
        return Observation("a copy of its own", True)
