"""python-rng: the state of Python's global generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable
from functools import partial
from types import ModuleType

from samebits.factors.base import GeneratorFactor, Seeding
from samebits.factors.context import FactorContext


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

    def watch(self, module: ModuleType, context: FactorContext) -> None:
        seeding, other = Seeding(), random.Random(context.derive_varied("site"))

        def call(name: str, original: Callable[..., Hashable], /, *args: object, **kwargs: object) -> object:
            # The global stream advances as always; a released call then answers from another stream, so that the
            # calls after it return the same values as without the release.
            result = original(*args, **kwargs)
            if name == "seed":
                seeding.is_done = True
            elif name == "getstate":
                seeding.saved(result)
            elif name == "setstate":
                seeding.restored(module._inst.getstate())
            elif not seeding.is_done and context.enter(f"random.{name}") == "varied":
                return getattr(other, name)(*args, **kwargs)
            return result

        for name, value in list(vars(module).items()):
            if getattr(value, "__self__", None) is module._inst:
                context.replace(module, name, partial(call, name))
