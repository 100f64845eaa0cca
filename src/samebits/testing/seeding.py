"""Every test with streams of its own, and factors changed on purpose where they must not matter."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from samebits.base.errors import UsageError
from samebits.base.seeds import derive
from samebits.factors.base import GeneratorFactor
from samebits.factors.catalog import CATALOG, find, in_order
from samebits.factors.context import Setting
from samebits.factors.pinning import Treatment, treat


def check_varied(names: Sequence[str], is_isolated: bool) -> tuple[str, ...]:
    """The factors to vary, in catalogue order; UsageError where one cannot be varied so."""
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


def varied(names: Sequence[str], variant: int) -> dict[str, Setting]:
    """Settings under which these factors have another value than by themselves; none for variant 0."""
    return {name: Setting("varied", variant=variant) for name in names} if variant else {}


def is_generator(name: str) -> bool:
    """Whether the factor is a global generator."""
    return isinstance(find(name), GeneratorFactor)


def seeded(seed: int, words: Sequence[str | int], settings: Mapping[str, Setting] | None = None) -> Treatment:
    """The global generators of this process at the start of streams that belong to these words, until `undo()`.

    Afterwards they stand where they would stand without. Settings say how to treat other factors meanwhile, or some of
    these otherwise; UsageError where one could not be treated.
    """
    pinned = {factor.name: Setting("pinned") for factor in CATALOG if isinstance(factor, GeneratorFactor)}
    treatment = treat({**pinned, **(settings or {})}, derive(seed, *words))
    for name, context in treatment.contexts.items():
        if context.failed:
            treatment.undo()
            raise UsageError(f"{name} could not be {context.mode}: {context.failed}")
    return treatment


def untouched(treatment: Treatment) -> list[str]:
    """What varied factors do not reach, because it was imported by name too early."""
    contexts = [context for context in treatment.contexts.values() if context.mode == "varied"]
    return [
        f"{context.factor} is not varied everywhere: {why}" for context in contexts if (why := context.taken_before())
    ]


def seed_torch(seed: int) -> None:
    """Seed torch on every device from a seed that others seed something else from; nothing where it is not loaded."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        torch.manual_seed(derive(seed, "torch", bits=32))
