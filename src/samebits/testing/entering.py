"""What enters a test and no seed holds: the clock, entropy, ids. It is told where two runs differ, and not blamed."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

from samebits.base.sites import user_site
from samebits.factors.catalog import find
from samebits.factors.context import FactorContext, Setting, Witness
from samebits.factors.patching import PatchedFunction

MOST_TOLD = 4
# Loaders and pools ask for keys and names of their queues, which reach no data.
_FOR_QUEUES = ("torch.utils.data.", "torch.multiprocessing", "multiprocessing")


class Entering:
    """Factors that move by themselves are witnessed in this process until `undo()`; those treated here already are not.

    Args:
        is_alone: the other run has a process of its own, so numbers of processes are other ones there.
    """

    def __init__(self, is_alone: bool) -> None:
        self._found: dict[tuple[str, object], Witness] = {}
        # A program of the user's may have called pytest: what pytest does for itself is not that line's doing.
        self._outside = user_site()
        doors = {"os-entropy": os.urandom, "clock": time.time, **({"process-id": os.getpid} if is_alone else {})}
        with ExitStack() as stack:
            for name, door in doors.items():
                if not isinstance(door, PatchedFunction):
                    context = FactorContext(name, Setting(), report=self._note)
                    stack.callback(context.end)
                    find(name).apply(context)
            self._undo = stack.pop_all()

    def undo(self) -> None:
        """Put everything back."""
        self._undo.close()

    def lines(self) -> list[str]:
        """What entered so far, each with what to change at its line."""
        told = []
        for one in self._found.values():
            factor = find(one.factor)
            fix = factor.fix_for(one.site, what=one.what)
            told.append(f"{one.factor}: {factor.explanation.format(what=one.what)}; {fix}")
        return told

    def _note(self, witness: Witness) -> None:
        if witness.site not in (None, self._outside) and not witness.what.startswith(_FOR_QUEUES):
            self._found.setdefault((witness.factor, witness.site), witness)
