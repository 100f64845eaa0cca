"""numpy-rng: the state of NumPy's legacy global generator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from samebits.base.sites import without_own_frames
from samebits.factors.base import GeneratorFactor, Seeding
from samebits.factors.context import FactorContext


class NumpyRng(GeneratorFactor):
    """The generator behind `np.random.rand()`, `np.random.shuffle()` and every other function of `numpy.random`.

    NumPy seeds it from the operating system when it is imported. scikit-learn and others draw from it whenever their
    `random_state` is left at None. Generators made by `np.random.default_rng()` are not it; made without a seed they
    belong to `os-entropy`.
    """

    name = "numpy-rng"
    summary = (
        "NumPy starts its global generator (np.random.rand, sklearn's random_state=None) from OS entropy in every run"
    )
    library = "numpy.random", "NumPy"
    seeding = "np.random.seed(0)"
    seeded_by = ("np.random.seed",)

    def watch(self, module: ModuleType, context: FactorContext) -> None:
        """Replace the global generator by a watched one, which has the same stream and state, but another class."""
        plain = module.mtrand._rand
        watched = _watched_class(module.RandomState)(plain._bit_generator)
        watched._context, watched._seeding = context, Seeding()
        watched._other = module.RandomState(context.derive_varied("site", bits=32))
        context.set(module.mtrand, "_rand", watched)
        for owner in (module, module.mtrand):
            for name, value in list(vars(owner).items()):
                if getattr(value, "__self__", None) is plain:
                    context.replace(owner, name, partial(_instead, getattr(watched, name)))
            context.replace(owner, "set_bit_generator", partial(_choose, watched._seeding))


def _instead(own: Callable[..., object], _: object, *args: object, **kwargs: object) -> object:
    return own(*args, **kwargs)


def _choose(seeding: Seeding, original: Callable[[object], None], bitgen: object) -> None:
    original(bitgen)
    seeding.is_done = True


def _watched_class(plain: Any) -> Any:
    """Return a RandomState class whose draws are witnessed until the program has seeded it."""

    def seed(self: Any, *args: Any, **kwargs: object) -> object:
        self._seeding.is_done = True
        with without_own_frames:
            return plain.seed(self, *args, **kwargs)

    def get_state(self: Any, *args: object, **kwargs: object) -> object:
        self._seeding.saved(_key(plain.get_state(self, legacy=False)))
        return plain.get_state(self, *args, **kwargs)

    def set_state(self: Any, state: object) -> None:
        plain.set_state(self, state)
        self._seeding.restored(_key(plain.get_state(self, legacy=False)))

    body = {"seed": seed, "get_state": get_state, "set_state": set_state}
    for name, value in vars(plain).items():
        if callable(value) and not name.startswith("_") and name not in body:
            body[name] = _draw(name, value)
    return type("RandomState", (plain,), body)


def _key(state: Any) -> str:
    # Not the array's own repr, which shortens it.
    return repr({**state["state"], "key": bytes(state["state"].get("key", b""))})


def _draw(name: str, original: Callable[..., object]) -> Callable[..., object]:
    def draw(self: Any, *args: object, **kwargs: object) -> object:
        # Entered before drawing: some draws call others (permutation calls shuffle), and the outermost is the user's.
        mode = "natural" if self._seeding.is_done else self._context.enter(f"numpy.random.{name}")
        with without_own_frames:
            result = original(self, *args, **kwargs)
        return getattr(self._other, name)(*args, **kwargs) if mode == "varied" else result

    draw.__name__ = name
    return draw
