"""Calls of modules, batches, and what is saved.

Parameters of modules are met when they are called; the outermost call brings the batch, and what it returns the output.
"""

from __future__ import annotations

import sys
import weakref
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import get_worker_info

from samebits.agent.graphs import is_tracing
from samebits.agent.identity import Weak
from samebits.agent.listening import as_tensor, listen, unwrapped
from samebits.agent.models import COPIED, LOADED, holds_any
from samebits.agent.saves import Saves, content
from samebits.agent.trees import leaves, plain_digest

if TYPE_CHECKING:
    from samebits.agent.lanes import Lane
    from samebits.agent.rows import Rows


class CallHooks:
    """What the recorder learns from calls, copies and loads of modules."""

    def __init__(self, recorder: Rows) -> None:
        self.recorder = recorder
        self.handles: list[Any] = []
        self._outermost_called = recorder.told(self.outermost_called)
        self._outermost_returned = recorder.told(self.outermost_returned)

    def install(self, stack: ExitStack) -> None:
        """Be called around calls of modules, and after they are copied or loaded."""
        told, hooks = self.recorder.told, torch.nn.modules.module
        self.handles = [
            hooks.register_module_forward_pre_hook(self.module_called),
            hooks.register_module_forward_hook(self.module_returned, always_call=True),
        ]
        if hasattr(hooks, "_has_any_global_hook"):
            # torch.compile warns of global hooks; ours vanish in compiled code and concern no one.
            stack.callback(setattr, hooks, "_has_any_global_hook", hooks._has_any_global_hook)
            hooks._has_any_global_hook = self._has_global_hooks_of_others
        stack.callback(listen(torch.nn.Module, "__setstate__", after=told(self.module_copied)))
        stack.callback(listen(torch.nn.Module, "load_state_dict", after=told(self.module_loaded)))

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
        is_inner = depth or inside.loading or module.__dict__.get("_is_replica", False)
        # A forked worker may have a lock that nobody opens any more.
        if not is_inner and get_worker_info() is None:
            self._outermost_called(module, args)

    def module_returned(self, module: torch.nn.Module, args: object, result: object) -> None:
        if torch.compiler.is_compiling():
            return
        inside = self.recorder.inside
        depth = inside.depth = max(0, inside.depth - 1)
        if depth == 0 and result is not None and not inside.loading and get_worker_info() is None:
            self._outermost_returned(module, result)

    def outermost_called(self, lane: Lane, module: torch.nn.Module, args: object) -> None:
        self.recorder.inside.outermost = weakref.ref(module)
        self.recorder.begin_if_over(module)
        for called in self.recorder.on_call:
            called(args)
        lane = self.recorder.lane
        log, opened_by = lane.log, lane.opened_by
        # A loss is called on what a model gave, whatever it holds: only the next call of a model is another step.
        if lane.is_untrained_call and (
            (opened_by is not None and opened_by.is_(module)) or (holds_any(module) and not _goes_on(args))
        ):
            self.recorder.end_call()
        if lane.ops is not None:
            # A forked child that trains itself begins here, and not when it is forked: it may be no such child.
            lane.ops.begin_step(log.step)
        log.add("init", lane.models.meet(module))
        lane.look_at_copies()
        if not lane.has_loader:
            log.add_trees("batch", [(f"{log.count('batch')}", args)])
        if not lane.forward_open:
            lane.forward_open, lane.opened_by = True, Weak(module)

    def outermost_returned(self, lane: Lane, module: torch.nn.Module, result: object) -> None:
        if not lane.in_backward:
            lane.returned(module, result)

    def module_copied(self, lane: Lane, result: object, module: torch.nn.Module, *_: object) -> None:
        # Compilers copy and unpickle graphs of their own, more or fewer of them as their caches are filled.
        if not isinstance(module, torch.fx.GraphModule):
            self._notice(module, COPIED)

    def module_loaded(self, lane: Lane, result: object, module: torch.nn.Module, *_: object) -> None:
        self._notice(module, LOADED)

    def _notice(self, module: torch.nn.Module, stage: int) -> None:
        if not is_tracing():
            self.recorder.begin_if_over(module)
            self.recorder.lane.models.notice(module, stage)

    def _has_global_hooks_of_others(self) -> bool:
        hooks, ops = torch.nn.modules.module, self.recorder.main.ops
        ours = {handle.id for handle in self.handles} | (set() if ops is None else ops.hook_ids)
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


class DataHooks:
    """What the recorder learns from loaders and from saving."""

    def __init__(self, recorder: Rows) -> None:
        self.recorder = recorder

    def install(self, stack: ExitStack) -> None:
        """Be called around every batch that a loader makes, and when something is saved."""
        told = self.recorder.told
        Saves(told(self.saved), self.recorder.on_passage).install(stack)
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        made = told(self.batch_made)

        def begins(*_: object) -> None:
            self.recorder.inside.loading = True

        def ended(*_: object) -> None:
            self.recorder.inside.loading = False

        def gave(*given: object) -> None:
            ended()
            made(*given)

        stack.callback(listen(iterator, "__next__", before=begins, after=gave, failed=ended))

    def batch_made(self, lane: Lane, batch: object, *_: object) -> None:
        self.recorder.has_loaders = True
        closed = lane.log.add_trees("batch", [(f"{lane.log.count('batch')}", batch)])
        # What a model is given stands for what cannot be looked into.
        lane.has_loader = not closed
        for kind in closed:
            self.recorder.note_once(f"what is in a {kind} of a batch")

    def saved(self, lane: Lane, thing: object) -> None:
        """Tensors are the state of a training; what else is saved may be a time, and only says more."""
        log = lane.log
        number = log.count("artifact")
        found = list(content(thing, f"{number}"))
        log.add("artifact", [(path, unwrapped(leaf)) for path, leaf in found if torch.is_tensor(leaf)])
        others = [(path, leaf) for path, leaf in found if not torch.is_tensor(leaf)]
        log.add("saved", [(path, tensor) for path, leaf in others if (tensor := as_tensor(leaf)) is not None])
        plain = [(path, digest) for path, leaf in others if (digest := plain_digest(leaf)) is not None]
        if plain:
            log.add_digests("saved", [path for path, _ in plain], [digest for _, digest in plain])
        # Of modules, what was written to since the last step digested it: it may be what is saved.
        held = lane.optimizers.all()
        versions = {id(p): version for one in held for p, version in zip(one.tensors, one.versions, strict=False)}
        states = [one for one in lane.models.holders() if one.stage != COPIED]
        log.add(
            "artifact", [(f"{number}.state.{name}", t) for one in states for name, t in one.changed_at_save(versions)]
        )
        lane.look_at_copies()
