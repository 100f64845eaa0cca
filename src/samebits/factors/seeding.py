"""Whether a program has seeded a generator, so that only the draws before it are witnessed."""

from __future__ import annotations

from collections.abc import Hashable


class Seeding:
    """The answer for one generator; going back to a state from before the first seeding undoes the seeding.

    `with numpy_seed(0): …` of many libraries is that: it saves the state, seeds, and puts the state back.
    """

    def __init__(self) -> None:
        self.is_done = False
        self._unseeded: set[int] = set()

    def saved(self, state: Hashable) -> None:
        """The program asked for the state."""
        if not self.is_done:
            self._unseeded.add(hash(state))

    def restored(self, state: Hashable) -> None:
        """The program set the state."""
        self.is_done = hash(state) not in self._unseeded
