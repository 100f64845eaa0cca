"""Calls of modules: their parameters are met, the outermost call brings the batch and what it returns the output."""

from __future__ import annotations

import sys
import weakref
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from samebits.agent.graphs import is_tracing
from samebits.agent.identity import Weak
from samebits.agent.lanes import look_at_copies
from samebits.agent.listening import listen
from samebits.agent.models import COPIED, LOADED, holds_any
from samebits.agent.trees import leaves

if TYPE_CHECKING:
    from samebits.agent.rows import Rows


class ModuleHooks:
    """What the recorder learns from calls, copies and loads of modules."""

    def __init__(self, recorder: Rows) -> None:
        self.recorder = recorder
        self.handles: list[Any] = []

    def install(self, stack: ExitStack) -> None:
        """Be called around calls of modules, and after they are copied or loaded."""
        safely = self.recorder.safely
        self._watch_modules()
        stack.callback(listen(torch.nn.Module, "__setstate__", after=safely(self.module_copied)))
        stack.callback(listen(torch.nn.Module, "load_state_dict", after=safely(self.module_loaded)))

    def remove(self) -> None:
        """Be called no more."""
        while self.handles:
            self.handles.pop().remove()

    def module_called(self, module: torch.nn.Module, args: object) -> None:
        # Inside a compiled region this must vanish: the compiler folds the test and never looks further.
        if torch.compiler.is_compiling():
            return
        inside = self.recorder.inside
        depth = inside.depth
        inside.depth = depth + 1
        # Replicas of DataParallel run in threads inside the call of a module that is seen itself.
        if depth and module is inside.outermost() and not _is_called_again():
            depth, inside.depth = 0, 1
        # Asked of the dictionary: a program's own `__getattr__` must not hear of names it does not know.
        if depth or inside.loading or module.__dict__.get("_is_replica", False):
            return
        if self.recorder.is_active():
            self.recorder.safely(self._outermost_called)(module, args)

    def module_returned(self, module: torch.nn.Module, args: object, result: object) -> None:
        if torch.compiler.is_compiling():
            return
        inside = self.recorder.inside
        depth = inside.depth = max(0, inside.depth - 1)
        if depth == 0 and result is not None and not inside.loading and self.recorder.is_active():
            self.recorder.safely(self._outermost_returned)(module, result)

    def _outermost_called(self, module: torch.nn.Module, args: object) -> None:
        self.recorder.inside.outermost = weakref.ref(module)
        self.recorder.begin_if_over(module)
        if self.recorder.interruption is not None:
            self.recorder.interruption.called()
        lane = self.recorder.lane
        training, log = lane.training, lane.log
        is_step = training.forward_open and not training.has_optimizer and not training.has_backward
        # A loss is called on what a model gave, whatever it holds: only the next call of a model is another step.
        if is_step and (training.was_opened_by(module) or (holds_any(module) and not _goes_on(args))):
            self.recorder.end_call()
        if lane.ops is not None:
            # A forked child that trains itself begins here, and not when it is forked: it may be no such child.
            lane.ops.begin_step(log.step)
        log.add("init", lane.models.meet(module))
        look_at_copies(lane)
        if not training.has_loader:
            log.add_tree("batch", args, f"{log.count('batch')}")
        if not training.forward_open:
            training.forward_open, training.opened_by = True, Weak(module)

    def _outermost_returned(self, module: torch.nn.Module, result: object) -> None:
        training = self.recorder.lane.training
        if not training.in_backward:
            training.returned(module, result)

    def module_copied(self, result: object, module: torch.nn.Module, *_: object) -> None:
        # Compilers copy and unpickle graphs of their own, more or fewer of them as their caches are filled.
        if self.recorder.is_active() and not isinstance(module, torch.fx.GraphModule) and not is_tracing():
            self.recorder.begin_if_over(module)
            self.recorder.lane.models.notice(module, COPIED)

    def module_loaded(self, result: object, module: torch.nn.Module, *_: object) -> None:
        if self.recorder.is_active() and not is_tracing():
            self.recorder.begin_if_over(module)
            self.recorder.lane.models.notice(module, LOADED)

    def _watch_modules(self) -> None:
        hooks = torch.nn.modules.module
        self.handles = [
            hooks.register_module_forward_pre_hook(self.module_called),
            hooks.register_module_forward_hook(self.module_returned, always_call=True),
        ]
        if hasattr(hooks, "_has_any_global_hook"):
            # torch.compile warns of global hooks; ours vanish in compiled code and concern no one.
            self.recorder.installed.callback(setattr, hooks, "_has_any_global_hook", hooks._has_any_global_hook)
            hooks._has_any_global_hook = self._has_global_hooks_of_others

    def _has_global_hooks_of_others(self) -> bool:
        hooks: object = torch.nn.modules.module
        ours = {handle.id for handle in self.handles} | (
            self.recorder.main.ops.hook_ids if self.recorder.main.ops is not None else set()
        )
        kinds = ("backward_pre", "backward", "forward_pre", "forward")
        return any(not ours.issuperset(getattr(hooks, f"_global_{kind}_hooks")) for kind in kinds)


def _goes_on(args: object) -> bool:
    """Whether a module is given what others computed for a backward."""
    return any(torch.is_tensor(leaf) and leaf.grad_fn is not None for _, leaf in leaves(args, ""))


def _is_called_again() -> bool:
    """Whether the module whose call was just reported was called inside its own call.

    Otherwise no call is around this one: what is no Exception leaves modules without calling any hook.
    """
    frame: FrameType | None = sys._getframe(2)
    calls = 0
    while frame is not None and calls < 2:
        calls += frame.f_code is torch.nn.Module._call_impl.__code__
        frame = frame.f_back
    return calls == 2
