"""torch-rng: the state of torch's global generators, on the CPU and on every accelerator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from samebits.factors.base import Factor, Observation, Scene, import_if_installed
from samebits.factors.seeding import Seeding


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
        scene.undo.callback(_restore_queues, _queues(torch))
        scene.undo.callback(_restore, _states(torch))
        torch.manual_seed(seed)
        if scene.watches_sites and scene.mode == "pinned":
            _watch(torch, scene)


def _accelerators(torch: Any) -> list[Any]:
    return [module for name in ("cuda", "xpu", "mtia") if (module := getattr(torch, name, None)) is not None]


def _states(torch: Any) -> list[tuple[Callable[[Any], None], Any]]:
    """Every generator's state and how to set it; an accelerator not in use yet would be initialised by asking."""
    states = [(torch.set_rng_state, torch.get_rng_state())]
    for module in _accelerators(torch):
        if module.is_initialized() and hasattr(module, "get_rng_state_all"):
            states.append((module.set_rng_state_all, module.get_rng_state_all()))
    if torch.backends.mps.is_available():
        states.append((torch.mps.set_rng_state, torch.mps.get_rng_state()))
    return states


def _restore(states: list[tuple[Callable[[Any], None], Any]]) -> None:
    for set_state, state in states:
        set_state(state)


def _queues(torch: Any) -> list[tuple[Any, Any, dict[str, Any]]]:
    """The seeds that wait for an accelerator to be used for the first time."""
    waiting = [module for module in _accelerators(torch) if not module.is_initialized()]
    trackers = [(module, getattr(module, "_lazy_seed_tracker", None)) for module in waiting]
    return [(module, tracker, dict(vars(tracker))) for module, tracker in trackers if tracker is not None]


def _restore_queues(queues: list[tuple[Any, Any, dict[str, Any]]]) -> None:
    for module, tracker, before in queues:
        vars(tracker).update(before)
        if module.is_initialized():
            # First used in between: it starts now from what it would have started from.
            seeds = [call for call in before["call_order"] if call]
            for call in seeds:
                call[0]()
            if not seeds:
                module.seed_all()


def _watch(torch: Any, scene: Scene) -> None:
    """Watch every random operation until the generators are seeded by the program; then get out of the way."""
    mode = _mode_class(torch)(scene)
    mode.follow()
    scene.undo.callback(mode.leave)
    for owner in (torch, torch.random):
        for name in ("manual_seed", "get_rng_state", "set_rng_state"):
            scene.replace(owner, name, getattr(mode, name))


def _mode_class(torch: Any) -> Any:
    python_dispatch: Any = import_if_installed("torch.utils._python_dispatch")
    random_op = torch.Tag.nondeterministic_seeded
    plain = torch.random
    manual_seed, get_rng_state, set_rng_state = plain.manual_seed, plain.get_rng_state, plain.set_rng_state

    class WatchDraws(python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        """Sees operations that draw from a global generator; changes nothing unless their line was released."""

        def __init__(self, scene: Scene) -> None:
            super().__init__()
            self.scene = scene
            self.seeding = Seeding()
            self.start = torch.initial_seed()
            self.released = 0
            self.is_on = False

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if random_op not in func.tags or self.is_seeded():
                return func(*args, **kwargs)
            before = _states(torch)
            result = func(*args, **kwargs)
            if not self.has_drawn(before) or self.scene.enter(f"torch.{func.overloadpacket.__name__}") != "varied":
                return result
            return self.redraw(func, args, kwargs)

        def is_seeded(self) -> bool:
            # The second way around us is `torch.default_generator.manual_seed`.
            return self.seeding.is_done or bool(torch.initial_seed() != self.start)

        def has_drawn(self, before: list[tuple[Callable[[Any], None], Any]]) -> bool:
            # Attention without dropout could draw and does not; with `generator=` another generator moves.
            return any(not _same(torch, old, new) for (_, old), (_, new) in zip(before, _states(torch), strict=False))

        def redraw(self, func: Any, args: Any, kwargs: Any) -> Any:
            # The global streams stand where they always stand after this call; only its answer is another one.
            states = _states(torch)
            manual_seed(self.scene.other("site", self.released, bits=32))
            self.released += 1
            try:
                return func(*args, **kwargs)
            finally:
                _restore(states)

        def manual_seed(self, seed: Any) -> Any:
            generator = manual_seed(seed)
            self.seeding.is_done = True
            self.follow()
            return generator

        def get_rng_state(self) -> Any:
            state = get_rng_state()
            self.seeding.saved(bytes(state.tolist()))
            return state

        def set_rng_state(self, new_state: Any) -> None:
            set_rng_state(new_state)
            self.seeding.restored(bytes(new_state.tolist()))
            self.follow()

        def follow(self) -> None:
            """Be there as long as the program has not seeded; under a mode of its own, neither leave nor come."""
            current = python_dispatch._get_current_dispatch_mode()
            if self.is_on and self.is_seeded():
                self.leave()
            elif not self.is_on and not self.is_seeded() and current is None:
                self.is_on = True
                self.__enter__()

        def leave(self) -> None:
            if self.is_on and python_dispatch._get_current_dispatch_mode() is self:
                self.is_on = False
                self.__exit__(None, None, None)

    return WatchDraws


def _same(torch: Any, a: Any, b: Any) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True)) if isinstance(a, list) else bool(torch.equal(a, b))
