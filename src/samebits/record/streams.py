"""The step-level recording: hooks that see a training run pass by and write one row per optimizer step.

Everything here runs inside the user's program and must leave its bits alone: it draws from no generator, keeps no
graph, waits for no device, and uses only hooks that are known to be neutral (no full backward hooks).
"""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import get_worker_info

from samebits.errors import StorageError
from samebits.factors.sites import user_files
from samebits.pinning import current_rank
from samebits.record import values
from samebits.record.digest import Pending, digests, is_evidence, pending
from samebits.record.generators import generator_states
from samebits.record.journal import Journal
from samebits.record.listening import as_tensor, gradients, graph_leaves, listen, named_state
from samebits.record.store import Column, Writer
from samebits.record.trees import leaves, plain_digest


@dataclass(frozen=True)
class Wish:
    """What to record.

    Attributes:
        stop_after: end the process once this step has been written; None lets it run to its end.
        keep_step: keep whole tensors of this step; None keeps none.
        keep_streams: of these streams.
    """

    stop_after: int | None = None
    keep_step: int | None = None
    keep_streams: tuple[str, ...] = ()


# An optimizer's state is the largest stream and the last to tell anything new: it follows from gradients, and whatever
# is in it reaches the parameters. It is digested in the first steps, in every tenth, and when the process ends.
STATE_FIRST_STEPS = 3
STATE_EVERY = 10


@dataclass
class _Row:
    """The step in the making: what each stream holds so far."""

    names: dict[str, list[str]] = field(default_factory=dict)
    parts: dict[str, list[Sequence[int] | Pending]] = field(default_factory=dict)

    def add(self, stream: str, names: Iterable[str], part: Sequence[int] | Pending) -> None:
        self.names.setdefault(stream, []).extend(names)
        self.parts.setdefault(stream, []).append(part)

    def columns(self) -> dict[str, Column]:
        return {stream: Column(tuple(names), self._digests(stream)) for stream, names in self.names.items()}

    def _digests(self, stream: str) -> list[int]:
        found: list[int] = []
        for part in self.parts[stream]:
            found.extend(part.result() if isinstance(part, Pending) else part)
        return found


class Recorder:
    """Watches this process. One per process; a forked child begins a new one when it trains itself."""

    def __init__(self, folder: Path, wish: Wish, journal: Journal) -> None:
        self.folder, self.wish, self.journal = folder, wish, journal
        self._begin()

    def _begin(self) -> None:
        self.pid = os.getpid()
        self.step = 0
        self.row = _Row()
        self.queue: list[tuple[int, str, _Row]] = []
        self.writer: Writer | None = None
        self.broken = False
        self.cut = ""
        self.modules: dict[int, str] = {}
        self.seen: set[int] = set()
        self.params: dict[int, list[tuple[str, Any]]] = {}
        self.has_optimizer = self.has_backward = self.has_loader = self.forward_open = False
        self.counts: dict[str, int] = {}
        self.optimizers: dict[int, Callable[[], Any]] = {}
        self.inside = threading.local()
        self.handles: list[Any] = []

    # ---- hooks -------------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Hook torch. Call once, right after torch was imported."""
        safely = self._safely
        register_optimizer_step_pre_hook(safely(self.before_step))
        register_optimizer_step_post_hook(safely(self.after_step))
        self._watch_modules()
        listen(torch.optim.Optimizer, "__init__", after=self.optimizer_made)
        for name in ("backward", "grad"):
            listen(torch.autograd, name, before=safely(self.before_backward), after=safely(self.after_backward))
        listen(torch, "save", before=safely(self.saved))
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        listen(iterator, "__next__", before=self.before_batch, after=safely(self.batch_made), failed=self.batch_failed)
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
                self.broken = True
                self.journal.note("error", kind="recording", message=f"{type(error).__name__}: {error}", hint="")

        return safe

    def _watch_modules(self) -> None:
        hooks = torch.nn.modules.module
        self.handles = [
            hooks.register_module_forward_pre_hook(self.module_called),
            hooks.register_module_forward_hook(self.module_returned, always_call=True),
        ]
        if hasattr(hooks, "_has_any_global_hook"):
            # torch.compile warns of global hooks; ours vanish in compiled code and are nobody's business.
            hooks._has_any_global_hook = self._has_global_hooks_of_others

    def _has_global_hooks_of_others(self) -> bool:
        hooks: Any = torch.nn.modules.module
        ours = {handle.id for handle in self.handles}
        kinds = ("backward_pre", "backward", "forward_pre", "forward")
        return any(not ours.issuperset(getattr(hooks, f"_global_{kind}_hooks")) for kind in kinds)

    def _unwatch_modules(self) -> None:
        while self.handles:
            self.handles.pop().remove()

    def _begin_in_child(self) -> None:
        # The parent's file must not be closed from here, not even by the garbage collector: it is kept, and left alone.
        handles, self.inherited = self.handles, self.writer
        self._begin()
        self.handles = handles

    def is_active(self) -> bool:
        """Whether this process trains: not a DataLoader worker, not broken by a full disk."""
        return not self.broken and get_worker_info() is None

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
        self._meet(module)
        if not self.has_loader:
            number = self._count("batch")
            self._add_tree("batch", args, f"{number}")
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
        self._add("init", named)

    def before_backward(self, *args: Any, **kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self.is_active():
            return
        tensors = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        self.has_backward, self.forward_open = True, False
        losses = [t for t in (tensors if isinstance(tensors, list | tuple) else [tensors]) if torch.is_tensor(t)]
        number = self._count("loss")
        self._add("loss", [(f"{number}[{i}]" if len(losses) > 1 else f"{number}", t) for i, t in enumerate(losses)])
        if not self.has_optimizer and not self.params:
            self.params[-1] = [(f"leaf{i}", leaf) for i, leaf in enumerate(graph_leaves(losses))]

    def after_backward(self, *_: Any, **__: Any) -> None:
        if torch.compiler.is_compiling() or not self.is_active() or self.has_optimizer:
            return
        named = self.params.get(-1, [])
        self._add("grad", gradients(named))
        self._add("param", named)
        self._end_step("backward")

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self.is_active():
            return
        named = self._params_of(optimizer)
        unborn = [(name, p) for name, p in named if id(p) not in self.seen]
        self.seen.update(id(p) for _, p in unborn)
        self._add("init", unborn)
        self._add("grad", gradients(named))

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if torch.compiler.is_compiling() or not self.is_active():
            return
        named = self._params_of(optimizer)
        if "grad" not in self.row.names:
            # A closure (LBFGS) calls backward inside the step: what it left behind is the gradient of this step.
            self._add("grad", gradients(named))
        self._add("param", named)
        self.optimizers[id(optimizer)] = weakref.ref(optimizer)
        if self.step < STATE_FIRST_STEPS or self.step % STATE_EVERY == 0:
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
        self._add("optimizer", tensors)
        for name, value in others:
            self._add_tree("optimizer", value, name)
        for index, group in enumerate(optimizer.param_groups):
            self._add_tree("optimizer", {k: v for k, v in group.items() if k != "params"}, f"group{index}")

    def before_batch(self, *_: Any) -> None:
        self.inside.loading = True

    def batch_failed(self, *_: Any) -> None:
        self.inside.loading = False

    def batch_made(self, batch: Any, *_: Any) -> None:
        self.inside.loading = False
        if self.is_active():
            self.has_loader = True
            self._add_tree("batch", batch, f"{self._count('batch')}")

    def saved(self, *args: Any, **kwargs: Any) -> None:
        if self.is_active():
            # Only tensors: checkpoints carry dates and host names, and nobody calls them other bits for that.
            thing = args[0] if args else kwargs.get("obj")
            named = [
                (path, leaf) for path, leaf in leaves(thing, f"{self._count('artifact')}") if torch.is_tensor(leaf)
            ]
            self._add("artifact", named)

    # ---- the row -----------------------------------------------------------------------------------------------------

    def _count(self, stream: str) -> int:
        number = self.counts.get(stream, 0)
        self.counts[stream] = number + 1
        return number

    def _add_tree(self, stream: str, tree: Any, prefix: str) -> None:
        tensors: list[tuple[str, Any]] = []
        plain: list[tuple[str, int]] = []
        for path, leaf in leaves(tree, prefix):
            tensor = as_tensor(leaf)
            if tensor is not None:
                tensors.append((path, tensor))
            elif (digest := plain_digest(leaf)) is not None:
                plain.append((path, digest))
        self._add(stream, tensors)
        if plain:
            self.row.add(stream, [name for name, _ in plain], [digest for _, digest in plain])

    def _add(self, stream: str, named: Iterable[tuple[str, Any]]) -> None:
        held = [(name, tensor) for name, tensor in named if is_evidence(tensor)]
        if not held:
            return
        tensors = [tensor for _, tensor in held]
        on_cpu = all(tensor.device.type == "cpu" for tensor in tensors)
        self.row.add(stream, [name for name, _ in held], digests(tensors) if on_cpu else pending(tensors))
        if self.step == self.wish.keep_step and stream in self.wish.keep_streams:
            values.keep(self.folder / "values", self._rank(), self.step, stream, held)

    def _end_step(self, cut: str) -> None:
        self._add_rng()
        self.queue.append((self.step, "step", self.row))
        self.row, self.counts, self.forward_open = _Row(), {}, False
        if not self.cut:
            self.cut = cut
            self.journal.note("cut", cut=cut, rank=self._rank())
            self.journal.note("files", files=user_files())
        self._flush_when_due()
        if self.wish.stop_after is not None and self.step >= self.wish.stop_after:
            self._stop()
        self.step += 1

    def _add_rng(self) -> None:
        states = generator_states()
        self.row.add("rng", states, list(states.values()))

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _flush_when_due(self) -> None:
        # Digests that still lie on an accelerator come over together, so the device is waited for once in a while only.
        parts = (part for _, _, row in self.queue for some in row.parts.values() for part in some)
        waiting = any(isinstance(part, Pending) for part in parts)
        if not waiting or len(self.queue) >= 16 or self.step == self.wish.stop_after:
            self._flush()

    def _flush(self) -> None:
        queue, self.queue = self.queue, []
        try:
            if self.writer is None and queue:
                self._open()
            for step, kind, row in queue:
                assert self.writer is not None
                self.writer.write(step, kind, row.columns())
        except StorageError as error:
            self.broken = True
            self.journal.note("error", kind=error.kind, message=error.message, hint=error.hint)

    def _open(self) -> None:
        self.writer = Writer(self.folder, self._rank())
        # Children of multiprocessing leave without atexit; they do run these.
        multiprocessing.util.Finalize(self, self.finish, exitpriority=100)

    def _rank(self) -> int:
        return current_rank() or 0

    def finish(self) -> None:
        """Write what came after the last step, and mark the recording as complete."""
        if self.pid != os.getpid() or not self.is_active():
            return
        if self.forward_open and not self.has_optimizer:
            self._end_step("forward")
        if self.writer is not None or self.queue:
            for optimizer in filter(None, (alive() for alive in self.optimizers.values())):
                self._add_optimizer(optimizer)
            if self.row.parts:
                self.queue.append((self.step, "end", self.row))
            self._flush()
        if self.writer is not None:
            self.writer.close()
            self.writer = None
            self.broken = True

    def _stop(self) -> None:
        """End the process here: everything that was asked for is on disk."""
        self.row, self.broken = _Row(), True
        if self.writer is not None:
            self.writer.close(complete=False)
            self.writer = None
        self.journal.note("end", stopped_after=self.step, rank=self._rank())
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                continue
        os._exit(0)
