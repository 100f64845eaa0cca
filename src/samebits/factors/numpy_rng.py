"""numpy-rng: the state of NumPy's legacy global generator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from samebits.factors.base import Factor, Observation, Scene


class NumpyRng(Factor):
    """The generator behind `np.random.rand()`, `np.random.shuffle()` and every other function of `numpy.random`.

    NumPy seeds it from the operating system when it is imported. scikit-learn and others draw from it whenever their
    `random_state` is left at None. Generators made by `np.random.default_rng()` are not it; made without a seed they
    belong to `os-entropy`.
    """

    name = "numpy-rng"
    summary = (
        "NumPy starts its global generator (np.random.rand, sklearn's random_state=None) from OS entropy in every run"
    )
    story = "drawn before it was seeded"
    cure = "call samebits.pin(seed=0), or np.random.seed(0), before line {line}"
    has_sites = True

    def pin(self, scene: Scene) -> None:
        scene.when_loaded("numpy.random", lambda module: self._start(module, scene, scene.derive(bits=32)))

    def vary(self, scene: Scene) -> None:
        scene.when_loaded("numpy.random", lambda module: self._start(module, scene, scene.other(bits=32)))

    def witness(self, scene: Scene) -> None:
        scene.when_loaded("numpy.random", lambda module: _watch(module, scene))

    def observe(self, scene: Scene | None = None) -> Observation:
        if scene is None:
            return Observation("unknown whether it was seeded", None)
        if "numpy.random" not in sys.modules:
            return Observation("NumPy is not loaded; it will be seeded when it is", True)
        return Observation("seeded by samebits", True)

    def _start(self, module: Any, scene: Scene, seed: int) -> None:
        scene.undo.callback(module.set_state, module.get_state())
        module.seed(seed)
        if scene.watches_sites and scene.mode == "pinned":
            _watch(module, scene)


def _watch(module: Any, scene: Scene) -> None:
    """Put a watched generator in the place of the global one: same stream, same state, other class."""
    plain = module.mtrand._rand
    watched = _watched_class(module.RandomState)(plain._bit_generator)
    watched._scene, watched._other = scene, module.RandomState(scene.other("site", bits=32))
    scene.set(module.mtrand, "_rand", watched)
    for owner in (module, module.mtrand):
        for name, value in list(vars(owner).items()):
            if getattr(value, "__self__", None) is plain:
                scene.set(owner, name, getattr(watched, name))
        scene.replace(owner, "seed", _seeding(vars(owner)["seed"], watched))


def _seeding(original: Callable[..., Any], watched: Any) -> Callable[..., Any]:
    def seed(*args: Any, **kwargs: Any) -> Any:
        watched._seeded = True
        return original(*args, **kwargs)

    return seed


def _watched_class(plain: Any) -> Any:
    body: dict[str, Any] = {"_seeded": False, "_drawing": False, "_scene": None, "_other": None}
    for name, value in vars(plain).items():
        if callable(value) and not name.startswith("_") and name not in ("get_state", "set_state", "seed"):
            body[name] = _draw(name, value)
    body["seed"], body["set_state"] = (_reseeds(vars(plain)[name]) for name in ("seed", "set_state"))
    return type("RandomState", (plain,), body)


def _reseeds(original: Callable[..., Any]) -> Callable[..., Any]:
    def reseeds(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._seeded = True
        return original(self, *args, **kwargs)

    return reseeds


def _draw(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._seeded or self._drawing:
            return original(self, *args, **kwargs)
        # Some draws call others (permutation calls shuffle): only the outermost one is the user's.
        self._drawing = True
        try:
            result = original(self, *args, **kwargs)
        finally:
            self._drawing = False
        if self._scene.enter(f"numpy.random.{name}") != "varied":
            return result
        return getattr(self._other, name)(*args, **kwargs)

    draw.__name__ = name
    return draw
