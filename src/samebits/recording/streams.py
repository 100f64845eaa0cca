"""The step-level recording: hooks that see a training run pass by and write one row per optimizer step.

Everything here runs inside the user's program and must leave its bits alone: it draws from no generator, keeps no
graph, waits for no device, and uses only hooks that are known to be neutral (no full backward hooks).
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import get_worker_info

from samebits.recording.journal import Journal
from samebits.recording.listening import gradients, graph_leaves, listen, named_state
from samebits.recording.log import Log
from samebits.recording.ops.mode import OpRecorder
from samebits.recording.trees import leaves
from samebits.recording.wish import Wish

# An optimizer's state is the largest stream and the last to tell anything new: it follows from gradients, and whatever
# is in it reaches the parameters. It is digested in the first steps, in every tenth, and when the process ends.
STATE_FIRST_STEPS = 3
STATE_EVERY = 10


class Recorder:
    """Watches this process. One per process; a forked child begins a new one when it trains itself."""

    def __init__(self, folder: Path, wish: Wish, journal: Journal) -> None:
        self.folder, self.wish, self.journal = folder, wish, journal
        self.installed = ExitStack()
        self._begin()

    def _begin(self) -> None:
        self.pid = os.getpid()
        self.log = Log(self.folder, self.wish, self.journal)
        self.log.when_opened(self.finish)
        self.modules: dict[int, str] = {}
        self.seen: set[int] = set()
        self.params: dict[int, list[tuple[str, Any]]] = {}
        self.has_optimizer = self.has_backward = self.has_loader = self.forward_open = False
        self.optimizers: dict[int, Callable[[], Any]] = {}
        self.inside = threading.local()
        self.ops: OpRecorder | None = None
        if self.wish.ops is not None and get_worker_info() is None:
            self.ops = OpRecorder(self.log, self.wish.ops)
        self.handles: list[Any] = []

    # ---- hooks -------------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Hook torch. Call once; what a process has to do at its end is done by `finish`."""
        safely, undo = self._safely, self.installed.callback
        for handle in (
            register_optimizer_step_pre_hook(safely(self.before_step)),
            register_optimizer_step_post_hook(safely(self.after_step)),
        ):
            undo(handle.remove)
        self._watch_modules()
        undo(listen(torch.optim.Optimizer, "__init__", after=self.optimizer_made))
        for name in ("backward", "grad"):
            undo(listen(torch.autograd, name, before=safely(self.before_backward), after=safely(self.after_backward)))
        undo(listen(torch, "save", before=safely(self.saved)))
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        made, failed = safely(self.batch_made), self.batch_failed
        undo(listen(iterator, "__next__", before=self.before_batch, after=made, failed=failed))
        if self.ops is not None:
            self.ops.begin_step(0)

    def uninstall(self) -> None:
        """Leave torch as it was."""
        if self.ops is not None:
            self.ops.abandon()
        self._unwatch_modules()
        self.installed.close()

    def stay_to_the_end(self) -> None:
        """Record until the process ends, however it does, and in children that it forks."""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_in_child)
        atexit.register(self.finish)
        # Leaving without atexit is common after training; what was recorded must not depend on how a script leaves.
        listen(os, "_exit", before=lambda *_: self.finish())

    def _safely(self, hook: Callable[..., None]) -> Callable[..., None]:
        """A mistake of ours must not end the user's run: the recording ends instead, and says why."""

        def safe(*args: Any, **kwargs: Any) -> None:
            try:
                hook(*args, **kwargs)
            except Exception as error:
                self.log.failed(error)

        return safe

    def _watch_modules(self) -> None:
        hooks = torch.nn.modules.module
        self.handles = [
            hooks.register_module_forward_pre_hook(self.module_called),
            hooks.register_module_forward_hook(self.module_returned, always_call=True),
        ]
        if hasattr(hooks, "_has_any_global_hook"):
            # torch.compile warns of global hooks; ours vanish in compiled code and are nobody's business.
            self.installed.callback(setattr, hooks, "_has_any_global_hook", hooks._has_any_global_hook)
            hooks._has_any_global_hook = self._has_global_hooks_of_others

    def _has_global_hooks_of_others(self) -> bool:
        hooks: Any = torch.nn.modules.module
        ours = {handle.id for handle in self.handles} | (self.ops.hook_ids if self.ops is not None else set())
        kinds = ("backward_pre", "backward", "forward_pre", "forward")
        return any(not ours.issuperset(getattr(hooks, f"_global_{kind}_hooks")) for kind in kinds)

    def _unwatch_modules(self) -> None:
        while self.handles:
            self.handles.pop().remove()

    def _begin_in_child(self) -> None:
        # The parent's file must not be closed from here, not even by the garbage collector: it is kept, and left alone.
        handles, self.inherited = self.handles, self.log
        if self.ops is not None:
            self.ops.abandon()
        self._begin()
        self.handles = handles

    def is_active(self) -> bool:
        """Whether this process trains: not a DataLoader worker, not broken by a full disk."""
        return not self.log.broken and get_worker_info() is None

    def optimizer_made(self, *_: Any) -> None:
        self.has_optimizer = True

    def module_called(self, module: Any, args: Any) -> None:
        # Inside a compiled region this must vanish: the compiler folds the test and never looks further.
        if torch.compiler.is_compiling():
            return
        depth = getattr(self.inside, "depth", 0)
        self.inside.depth = depth + 1
        if depth == 0 and not getattr(self.inside, "loading", False) and self.is_active():
            self._safely(self._outermost_called)(module, args)

    def module_returned(self, module: Any, args: Any, result: Any) -> None:
        if torch.compiler.is_compiling():
            return
        self.inside.depth = max(0, getattr(self.inside, "depth", 0) - 1)

    def _outermost_called(self, module: Any, args: Any) -> None:
        if self.forward_open and not self.has_optimizer:
            self._end_step("forward")
        if self.ops is not None:
            # A forked child that trains itself begins here, and not when it is forked: it may be no such child.
            self.ops.begin_step(self.log.step)
        self._meet(module)
        if not self.has_loader:
            number = self.log.count("batch")
            self.log.add_tree("batch", args, f"{number}")
        self.forward_open = torch.is_grad_enabled() or not self.has_backward

    def _meet(self, module: Any) -> None:
        """Name the parameters of a module that is used for the first time, and note how they were born."""
        if id(module) in self.modules:
            return
        top = type(module).__name__
        self.modules[id(module)] = top
        found = [(name, tensor) for name, tensor in named_state(module) if id(tensor) not in self.seen]
        self.seen.update(id(tensor) for _, tensor in found)
        prefix = "" if len(self.modules) == 1 else f"{top}{len(self.modules) - 1}."
        named = [(f"{prefix}{name}", tensor) for name, tensor in found]
        self.params.setdefault(-1, []).extend(named)
        self.log.add("init", named)

    def before_backward(self, *args: Any, **kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self.is_active():
            return
        tensors = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        self.has_backward, self.forward_open = True, False
        losses = [t for t in (tensors if isinstance(tensors, list | tuple) else [tensors]) if torch.is_tensor(t)]
        number = self.log.count("loss")
        named = [(f"{number}[{i}]" if len(losses) > 1 else f"{number}", t) for i, t in enumerate(losses)]
        self.log.add("loss", named)
        self.log.add_numbers(named)
        if not self.has_optimizer and not self.params:
            self.params[-1] = [(f"leaf{i}", leaf) for i, leaf in enumerate(graph_leaves(losses))]

    def after_backward(self, *_: Any, **__: Any) -> None:
        if torch.compiler.is_compiling() or not self.is_active() or self.has_optimizer:
            return
        named = self.params.get(-1, [])
        self.log.add("grad", gradients(named))
        self.log.add("param", named)
        self._end_step("backward")

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self.is_active():
            return
        if self.ops is not None:
            self.ops.places.optimizer_called(optimizer)
        named = self._params_of(optimizer)
        unborn = [(name, p) for name, p in named if id(p) not in self.seen]
        self.seen.update(id(p) for _, p in unborn)
        self.log.add("init", unborn)
        self.log.add("grad", gradients(named))

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self.is_active():
            return
        if self.ops is not None:
            self.ops.places.optimizer_returned()
        named = self._params_of(optimizer)
        if not self.log.has("grad"):
            # A closure (LBFGS) calls backward inside the step: what it left behind is the gradient of this step.
            self.log.add("grad", gradients(named))
        self.log.add("param", named)
        self.optimizers[id(optimizer)] = weakref.ref(optimizer)
        if self.log.step < STATE_FIRST_STEPS or self.log.step % STATE_EVERY == 0:
            self._add_optimizer(optimizer)
        self._end_step("optimizer")
        if self.has_loader and self.handles:
            # Batches come from a loader and every parameter is known: module calls have nothing more to tell.
            self._unwatch_modules()

    def _params_of(self, optimizer: Any) -> list[tuple[str, Any]]:
        tensors = [p for group in optimizer.param_groups for p in group["params"]]
        known = self.params.get(id(optimizer))
        if (
            known is None
            or len(known) != len(tensors)
            or any(a is not p for (_, a), p in zip(known, tensors, strict=True))
        ):
            number = len(self.params)
            names = {id(tensor): name for name, tensor in self.params.get(-1, [])}
            known = [(names.get(id(p), f"optimizer{number}.param{i}"), p) for i, p in enumerate(tensors)]
            self.params[id(optimizer)] = known
        return known

    def _add_optimizer(self, optimizer: Any) -> None:
        held: list[tuple[str, Any]] = []
        for name, parameter in self._params_of(optimizer):
            state = optimizer.state.get(parameter)
            if state:
                held.extend((f"{name}.{key}", value) for key, value in state.items())
        tensors = [(name, value) for name, value in held if torch.is_tensor(value)]
        others = [(name, value) for name, value in held if not torch.is_tensor(value)]
        self.log.add("optimizer", tensors)
        for name, value in others:
            self.log.add_tree("optimizer", value, name)
        for index, group in enumerate(optimizer.param_groups):
            self.log.add_tree("optimizer", {k: v for k, v in group.items() if k != "params"}, f"group{index}")

    def before_batch(self, *_: Any) -> None:
        self.inside.loading = True

    def batch_failed(self, *_: Any) -> None:
        self.inside.loading = False

    def batch_made(self, batch: Any, *_: Any) -> None:
        self.inside.loading = False
        if self.is_active():
            self.has_loader = True
            self.log.add_tree("batch", batch, f"{self.log.count('batch')}")

    def saved(self, *args: Any, **kwargs: Any) -> None:
        if self.is_active():
            # Only tensors: checkpoints carry dates and host names, and nobody calls them other bits for that.
            thing = args[0] if args else kwargs.get("obj")
            named = [
                (path, leaf) for path, leaf in leaves(thing, f"{self.log.count('artifact')}") if torch.is_tensor(leaf)
            ]
            self.log.add("artifact", named)

    # ---- the end of a step, and of the process ----------------------------------------------------------------------

    def _end_step(self, cut: str) -> None:
        self.forward_open = False
        if self.ops is not None:
            self.ops.end_step()
        if self.log.end_step(cut):
            self._stop()
        if self.ops is not None:
            self.ops.begin_step(self.log.step)

    def finish(self) -> None:
        """Write what came after the last step, and mark the recording as complete."""
        if self.pid != os.getpid() or not self.is_active():
            return
        if self.forward_open and not self.has_optimizer:
            self._end_step("forward")
        if self.ops is not None:
            self.ops.close()
        if self.log.is_begun:
            for optimizer in filter(None, (alive() for alive in self.optimizers.values())):
                self._add_optimizer(optimizer)
        self.log.close()

    def _stop(self) -> None:
        """End the process here: everything that was asked for is on disk."""
        self.log.close(complete=False)
        end_process(self.journal, self.log.step - 1, self.log.rank)


def end_process(journal: Journal, last_step: int, rank: int) -> None:
    """End this process after a step, on purpose; what the program printed so far is printed."""
    journal.note("end", stopped_after=last_step, rank=rank)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(0)
