"""torch-rng: the state of torch's global generators, on the CPU and on every accelerator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from samebits.accelerators.devices import modules
from samebits.base.sites import without_own_frames
from samebits.base.tracing import tracers
from samebits.factors.base import GeneratorFactor, Observation, Seeding
from samebits.factors.context import FactorContext, import_if_installed
from samebits.rng.handles import States, restore, states_of, torch_states

if TYPE_CHECKING:
    import torch


class TorchRng(GeneratorFactor):
    """The generators behind `torch.rand()`, `nn.init`, dropout, and the shuffling of a DataLoader without `generator=`.

    torch seeds them from the operating system when it is imported, so parameters made before `torch.manual_seed(...)`
    are other parameters in every run. `torch.manual_seed` seeds the CPU and every accelerator at once. The CPU
    generator looks at the low 32 bits of a seed only (`at::CPUGeneratorImpl` keeps a Mersenne Twister), so 32 bits
    are what is derived. Not seen: draws on the program's own threads; and a draw in compiled code is known by the
    first line of its function only.
    """

    name = "torch-rng"
    summary = "torch starts its generators (nn.init, dropout, DataLoader shuffling) from OS entropy in every run"
    library = "torch", "torch"
    seeding = "torch.manual_seed(0)"
    seeded_by = ("torch.manual_seed",)

    def observe(self, context: FactorContext | None = None) -> Observation:
        observation, torch = super().observe(context), sys.modules.get("torch")
        if context is None or torch is None:
            return observation
        return replace(observation, value=f"{observation.value}, initial_seed() is now {torch.initial_seed()}")

    def start(self, module: ModuleType, context: FactorContext, seed: int) -> None:
        unused = [_Unused(accelerator) for accelerator in modules().values() if not accelerator.is_initialized()]
        for accelerator in unused:
            context.undo.callback(accelerator.end)
        # By the public names: where a program pins inside a watched run, the watch sees the state being restored.
        states = [(module.set_rng_state, module.get_rng_state()), *torch_states(module)[1:]]
        context.undo.callback(restore, states)
        module.manual_seed(seed)
        for accelerator in unused:
            accelerator.seed_in_turn()

    def watch(self, module: ModuleType, context: FactorContext) -> None:
        _TorchWatch(module, context).install()


class _Unused:
    """An accelerator before its first use, when torch makes the calls queued for it in order, and seeds it last.

    Here the seeds are moved into the queue, so that a state that the program sets later counts, and not our seed.
    """

    def __init__(self, module: Any) -> None:
        self.module, self.states = module, States()
        # The names that torch uses for its own devices; where other makers keep these is unknown.
        self.calls, self.seeds = getattr(module, "_queued_calls", []), getattr(module, "_lazy_seed_tracker", None)
        self.before, self.length = {} if self.seeds is None else dict(vars(self.seeds)), len(self.calls)
        self.seed_in_turn()
        # The states from which it would have started without us.
        self._later(lambda: self.states.extend(states_of(module.default_generators)))

    def seed_in_turn(self) -> None:
        """Move the waiting seeds to the end of the queued calls."""
        if self.seeds is not None:
            self.calls += [call for call in self.seeds.call_order if call]
            vars(self.seeds).update(vars(type(self.seeds)()))
        self.own = self.calls[self.length :]

    def end(self) -> None:
        """Let the accelerator start, or go on, from the states from which it would have started without us."""
        if self.module.is_initialized():
            restore(self.states)
        elif self.seeds is not None and self.calls[self.length :] == self.own:
            del self.calls[self.length :]
            vars(self.seeds).update(self.before)
        else:
            self.seed_in_turn()
            self._later(lambda: restore(self.states))

    def _later(self, act: Callable[[], object]) -> None:
        if self.seeds is not None:
            self.calls.append((act, []))
        else:
            getattr(self.module, "_lazy_call", lambda _: None)(act)


class _TorchWatch:
    """A watch on every random operation until the program has seeded; it changes results at released lines only."""

    def __init__(self, torch: ModuleType, context: FactorContext) -> None:
        self.torch, self.context, self.seeding = torch, context, Seeding()
        self.generator, self.start = torch.default_generator, torch.initial_seed()
        self.seed_globally = torch.manual_seed
        self.random_tag = torch.Tag.nondeterministic_seeded
        self.current_mode, self.mode = _mode_calling(self.operation)
        self.is_on = self.is_tracing = False
        self.redrawn = 0

    def install(self) -> None:
        """Begin to watch operations, and the functions through which a program seeds."""
        self.follow()
        self.context.undo.callback(self.leave)
        for owner in (self.torch, self.torch.random):
            for name in ("manual_seed", "get_rng_state", "set_rng_state"):
                self.context.replace(owner, name, getattr(self, name))
        for owner, name in tracers():
            self.context.replace(owner, name, self.traced)

    def operation(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Run an operation of torch, and witness it if it has drawn without a seed of the program's."""
        if self.random_tag not in func.tags or self.is_seeded():
            return func(*args, **kwargs)
        before = torch_states(self.torch)
        result = func(*args, **kwargs)
        if not self.has_drawn(before) or self.context.enter(f"torch.{func.overloadpacket.__name__}") != "varied":
            return result
        return self.drawn_again(func, args, kwargs)

    def drawn_again(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        # The global streams are where they always are after this call; only its result is another one.
        states = torch_states(self.torch)
        self.seed_globally(self.context.derive_varied("site", self.redrawn, bits=32))
        self.redrawn += 1
        try:
            return func(*args, **kwargs)
        finally:
            restore(states)

    def has_drawn(self, before: States) -> bool:
        # Attention without dropout could draw and does not; with `generator=` another generator advances.
        pairs = zip(before, torch_states(self.torch), strict=False)
        return any(not self.torch.equal(old, new) for (_, old), (_, new) in pairs)

    def is_seeded(self) -> bool:
        # `torch.default_generator.manual_seed` seeds without calling our functions.
        return self.seeding.is_done or bool(self.generator.initial_seed() != self.start)

    def manual_seed(self, original: Callable[..., object], seed: object) -> object:
        generator = original(seed)
        self.seeding.is_done = True
        self.follow()
        return generator

    def traced(self, original: Callable[..., object], *args: object, **kwargs: object) -> object:
        """Trace outside of the mode."""
        was_tracing, self.is_tracing = self.is_tracing, True
        self.leave()
        try:
            return original(*args, **kwargs)
        finally:
            self.is_tracing = was_tracing
            self.follow()

    def get_rng_state(self, original: Callable[[], torch.Tensor]) -> object:
        state = original()
        self.seeding.saved(bytes(state.tolist()))
        return state

    def set_rng_state(self, original: Callable[..., None], new_state: torch.Tensor) -> None:
        original(new_state)
        self.seeding.restored(bytes(new_state.tolist()))
        self.follow()

    def follow(self) -> None:
        """Stay in the mode until the program has seeded; inside a mode of the program's, neither enter nor leave."""
        if self.is_seeded():
            self.leave()
        elif not self.is_on and not self.is_tracing and self.current_mode() is None:
            self.is_on = True
            self.mode.__enter__()

    def leave(self) -> None:
        """Leave the mode, so that a seeded program pays nothing."""
        if self.is_on and self.current_mode() is self.mode:
            self.is_on = False
            self.mode.__exit__(None, None, None)


def _mode_calling(operation: Callable[..., object]) -> tuple[Callable[[], Any], Any]:
    """Return the getter of the innermost dispatch mode, and a mode that passes every operation to `operation`."""
    python_dispatch: Any = import_if_installed("torch.utils._python_dispatch")

    class EveryOperation(python_dispatch.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: torch._ops.OpOverload, types: object, args: object = (), kwargs: object = None
        ) -> object:
            with without_own_frames:
                return operation(func, args, kwargs or {})

        @classmethod
        def is_infra_mode(cls) -> bool:
            # Under any other mode torch.compile leaves code uncompiled.
            return True

        # The method's name in newer versions.
        ignore_compile_internals = is_infra_mode

    return python_dispatch._get_current_dispatch_mode, EveryOperation()
