"""Draws of a training outside of its loaders, keyed: what each step draws depends on nothing that came before it."""

from __future__ import annotations

from collections.abc import Iterable

from samebits.base.ranks import rank_and_world_size
from samebits.base.seeds import KeyDeriver
from samebits.data.generators import Current, Generators


class StepGenerators:
    """Every generator that a training draws from, to be started from the key of what comes next.

    Args:
        seed: what all keys hang on.
        roots: name and object; generators that they hold are found now, and started as well.
        beside: objects that are not looked into.
    """

    def __init__(self, seed: int, *roots: tuple[str, object], beside: Iterable[object] = ()) -> None:
        self._deriver = KeyDeriver(seed, "step")
        self._generators = Generators(*roots, beside=beside)

    def start(self, *words: str | int) -> None:
        """Begin what `words` name, such as ("batch", epoch, number): every rank has draws of its own."""
        rank, _ = rank_and_world_size()
        self._generators.start(self._deriver.key(*words, "rank", rank))
        # No sample is being fetched.
        Current.set(None)
