"""torch-rng: the state of torch's global generators, on the CPU and on every accelerator."""

from __future__ import annotations

import sys
from typing import Any

from samebits.factors.base import Factor, Observation, Scene, import_if_installed


class TorchRng(Factor):
    """The generators behind `torch.rand()`, `nn.init`, dropout, and the shuffling of a DataLoader without `generator=`.

    torch seeds them from the operating system when it is imported, so parameters made before `torch.manual_seed(...)`
    are other parameters in every run. `torch.manual_seed` seeds the CPU and every accelerator at once. The CPU
    generator looks at the low 32 bits of a seed only (`at::CPUGeneratorImpl` keeps a Mersenne Twister), so 32 bits
    are what is derived.
    """

    name = "torch-rng"
    summary = "torch starts its generators (nn.init, dropout, DataLoader shuffling) from OS entropy in every run"
    story = "drawn before it was seeded"
    cure = "call samebits.pin(seed=0), or torch.manual_seed(0), before line {line}"
    has_sites = True

    def pin(self, scene: Scene) -> None:
        scene.when_loaded("torch", lambda torch: self._start(torch, scene, scene.derive(bits=32)))

    def vary(self, scene: Scene) -> None:
        scene.when_loaded("torch", lambda torch: self._start(torch, scene, scene.other(bits=32)))

    def witness(self, scene: Scene) -> None:
        scene.when_loaded("torch", lambda torch: _watch(torch, scene))

    def observe(self, scene: Scene | None = None) -> Observation:
        torch = sys.modules.get("torch")
        if scene is None:
            return Observation("unknown whether it was seeded", None)
        if torch is None:
            return Observation("torch is not loaded; it will be seeded when it is", True)
        return Observation(f"seeded by samebits, initial_seed() is now {torch.initial_seed()}", True)

    def _start(self, torch: Any, scene: Scene, seed: int) -> None:
        scene.undo.callback(_restore, torch, _states(torch))
        torch.manual_seed(seed)
        if scene.watches_sites and scene.mode == "pinned":
            _watch(torch, scene)


def _backends(torch: Any) -> list[Any]:
    """The accelerator modules that are in use already; asking others for their state would initialise them."""
    modules = (getattr(torch, name, None) for name in ("cuda", "xpu", "mps"))
    return [m for m in modules if m is not None and getattr(m, "is_initialized", lambda: False)()]


def _states(torch: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    return torch.get_rng_state(), [(m, m.get_rng_state_all()) for m in _backends(torch)]


def _restore(torch: Any, states: tuple[Any, list[tuple[Any, Any]]]) -> None:
    torch.set_rng_state(states[0])
    for module, state in states[1]:
        module.set_rng_state_all(state)


def _watch(torch: Any, scene: Scene) -> None:
    """Watch every random operation until the generators are seeded by the program; then get out of the way."""
    mode = _mode_class(torch)(torch, scene)
    mode.__enter__()
    scene.undo.callback(mode.leave)

    def manual_seed(seed: Any) -> Any:
        generator = original(seed)
        mode.leave()
        return generator

    original = torch.manual_seed
    for owner in (torch, torch.random):
        scene.replace(owner, "manual_seed", manual_seed)


def _mode_class(torch: Any) -> Any:
    python_dispatch: Any = import_if_installed("torch.utils._python_dispatch")
    random_op = torch.Tag.nondeterministic_seeded

    class WatchDraws(python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        """Sees operations that draw from a global generator; changes nothing unless their line was released."""

        def __init__(self, torch: Any, scene: Scene) -> None:
            super().__init__()
            self.scene = scene
            self.start = torch.default_generator.initial_seed()
            self.released = 0
            self.left = False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            result = func(*args, **kwargs)
            if random_op not in func.tags or kwargs.get("generator") is not None or self.is_seeded():
                return result
            if self.scene.enter(f"torch.{func.overloadpacket.__name__}") != "varied":
                return result
            return self.redraw(func, args, kwargs)

        def is_seeded(self) -> bool:
            return bool(torch.default_generator.initial_seed() != self.start)

        def redraw(self, func: Any, args: Any, kwargs: Any) -> Any:
            # The global streams stand where they always stand after this call; only its answer is another one.
            states = _states(torch)
            torch._C.default_generator.manual_seed(self.scene.other("site", self.released, bits=32))
            for module in _backends(torch):
                module.manual_seed_all(self.scene.other("site", self.released, bits=32))
            self.released += 1
            try:
                return func(*args, **kwargs)
            finally:
                _restore(torch, states)

        def leave(self) -> None:
            # Only the innermost mode can be left; one that lies under a user's own mode stays and costs a little.
            if not self.left and python_dispatch._get_current_dispatch_mode() is self:
                self.left = True
                self.__exit__(None, None, None)

    return WatchDraws
