"""Seeds of tests: streams of each test's own, factors varied on purpose, and witnesses of what no seed controls.

The last, the clock, entropy and process ids, are named where two runs differ, but not blamed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from samebits.base.errors import UsageError
from samebits.base.seeds import derive
from samebits.base.sites import user_site
from samebits.factors.base import GeneratorFactor
from samebits.factors.catalog import CATALOG, find, in_order
from samebits.factors.context import FactorContext, Setting, Witness
from samebits.factors.patching import PatchedFunction
from samebits.factors.pinning import Treatment, treat

MOST_TOLD = 4
# Loaders and pools draw entropy for keys and names of their queues, which reach no data.
_FOR_QUEUES = ("torch.utils.data.", "torch.multiprocessing", "multiprocessing")


def check_varied(names: Sequence[str], is_isolated: bool) -> tuple[str, ...]:
    """Return the factors to vary, in catalogue order; UsageError if one cannot be varied in a test."""
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"vary takes a list of factors, got {names!r}", "for example vary=['file-order']")
    for factor in map(find, names):
        if factor.by_folder:
            raise UsageError(f"{factor.name} belongs to the folder of a whole run", "samebits check varies it")
        if factor.scope == "environment" and not is_isolated:
            raise UsageError(
                f"{factor.name} is fixed when Python starts", "add isolated=True: each run has a process then"
            )
    return tuple(in_order(names))


def varied_settings(names: Sequence[str], variant: int) -> dict[str, Setting]:
    """Return settings that vary these factors; none for variant 0."""
    return {name: Setting("varied", variant=variant) for name in names} if variant else {}


def is_generator(name: str) -> bool:
    """Whether the factor is a global generator."""
    return isinstance(find(name), GeneratorFactor)


def seeded(seed: int, words: Sequence[str | int], settings: Mapping[str, Setting] | None = None) -> Treatment:
    """Start the global generators of this process at streams derived from the seed and these words, until `undo()`.

    Afterwards they are where they would be without this. Settings say how to treat other factors meanwhile, or some of
    the generators differently; UsageError if a factor could not be treated.
    """
    pinned = {factor.name: Setting("pinned") for factor in CATALOG if isinstance(factor, GeneratorFactor)}
    treatment = treat({**pinned, **(settings or {})}, derive(seed, *words))
    for name, context in treatment.contexts.items():
        if context.failed:
            treatment.undo()
            raise UsageError(f"{name} could not be {context.mode}: {context.failed}")
    return treatment


def untouched(treatment: Treatment) -> list[str]:
    """Return sentences about what varied factors do not reach, because it was imported by name too early."""
    contexts = [context for context in treatment.contexts.values() if context.mode == "varied"]
    return [
        f"{context.factor} is not varied everywhere: {why}" for context in contexts if (why := context.early_import())
    ]


class UnseededWitnesses(Treatment):
    """Witnesses factors that move by themselves in this process, until `undo()`; except those already treated here.

    Args:
        is_alone: whether each run has a process of its own, so that process ids differ between runs.
    """

    def __init__(self, is_alone: bool) -> None:
        self._found: dict[tuple[str, object], Witness] = {}
        # A program of the user's may have called pytest: its line is not responsible for what pytest does for itself.
        self._outside = user_site()
        doors = {"os-entropy": os.urandom, "clock": time.time, **({"process-id": os.getpid} if is_alone else {})}
        with ExitStack() as stack:
            for name, door in doors.items():
                if not isinstance(door, PatchedFunction):
                    context = FactorContext(name, Setting(), report=self._note)
                    stack.callback(context.end)
                    find(name).apply(context)
            super().__init__({}, stack.pop_all().close)

    def lines(self) -> list[str]:
        """Return a line for each factor that has entered so far, with what to change at its site."""
        lines = []
        for witness in self._found.values():
            factor = find(witness.factor)
            fix = factor.fix_for(witness.site, what=witness.what)
            lines.append(f"{witness.factor}: {factor.explanation.format(what=witness.what)}; {fix}")
        return lines

    def _note(self, witness: Witness) -> None:
        if witness.site not in (None, self._outside) and not witness.what.startswith(_FOR_QUEUES):
            self._found.setdefault((witness.factor, witness.site), witness)
