"""python-rng: the state of Python's global generator."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from samebits.factors.base import GeneratorFactor, Seeding
from samebits.factors.context import FactorContext

STATE = ("seed", "getstate", "setstate")


class PythonRng(GeneratorFactor):
    """The generator behind `random.random()`, `random.shuffle()` and the rest of the module's functions.

    Python seeds it from the operating system at start-up, so whatever is drawn before `random.seed(...)` is another
    value in every run. Generators of one's own (`random.Random(...)`) do not belong here; unseeded ones belong to
    `os-entropy`.
    """

    name = "python-rng"
    summary = "Python starts its global generator (random.random, random.shuffle) from OS entropy in every run"
    library = "random", "Python"
    seed_bits = 64
    seeding = "random.seed(0)"
    seeded_by = ("random.seed",)

    def watch(self, module: Any, context: FactorContext) -> None:
        watch = _PythonWatch(context)
        for name, value in list(vars(module).items()):
            if getattr(value, "__self__", None) is module._inst:
                watched = getattr(watch, name)(value) if name in STATE else watch.draw(name, value)
                context.replace(module, name, watched)


class _PythonWatch:
    """Tells draws before the first seeding from those after it, and replaces the released ones."""

    def __init__(self, context: FactorContext) -> None:
        self.context = context
        self.seeding = Seeding()
        self.other = random.Random(context.other("site"))

    def draw(self, name: str, original: Callable[..., object]) -> Callable[..., object]:
        def draw(*args: object, **kwargs: object) -> object:
            # The global stream advances as it always does; a released call then answers from another stream, so that
            # the calls after it are not blamed for what this one did.
            result = original(*args, **kwargs)
            if self.seeding.is_done or self.context.enter(f"random.{name}") != "varied":
                return result
            return getattr(self.other, name)(*args, **kwargs)

        return draw

    def seed(self, original: Callable[..., None]) -> Callable[..., None]:
        def seed(*args: object, **kwargs: object) -> None:
            original(*args, **kwargs)
            self.seeding.is_done = True

        return seed

    def getstate(self, original: Callable[[], object]) -> Callable[[], object]:
        def getstate() -> object:
            state = original()
            self.seeding.saved(state)
            return state

        return getstate

    def setstate(self, original: Callable[[object], None]) -> Callable[[object], None]:
        def setstate(state: Any) -> None:
            original(state)
            self.seeding.restored(tuple(state))

        return setstate
