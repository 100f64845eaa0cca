"""The step-level recording: hooks that see a training run pass by and write one row per optimizer step.

Everything here runs inside the user's program and must leave its bits alone: it draws from no generator, keeps no
graph, waits for no device, and uses only hooks that are known to be neutral (no full backward hooks).
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import get_worker_info

from samebits.agent.graphs import UNSEEN, Graphs
from samebits.agent.lanes import Lane, new_lane
from samebits.agent.listening import Named, gradients, graph_leaves, listen, unwrapped
from samebits.agent.log import Log, digested
from samebits.agent.models import COPIED, LOADED, Holder, Models
from samebits.agent.ops.mode import OpRecorder
from samebits.agent.optimizers import Held, Optimizers
from samebits.agent.saves import Saves, content, kind_of
from samebits.agent.training import Training
from samebits.agent.trees import plain_digest
from samebits.agent.used import what_was_used
from samebits.bits.digest import Pending, is_evidence
from samebits.runfolder.lane_ids import current_lane_id
from samebits.runfolder.notes import Journal
from samebits.runfolder.spec import OpWindow, RecordSpec

# An optimizer's state is the largest stream and the last to tell anything new: it follows from gradients, and whatever
# is in it reaches the parameters. It is digested in the first steps, in every tenth, and when the process ends.
STATE_FIRST_STEPS = 3
STATE_EVERY = 10


def _nothing() -> None:
    """What a dead reference gives."""


# Last looks go to the end row in the order of their kinds.
_OF_HOLDER, _OF_OPTIMIZER, _OF_LEAVES = range(3)


class _Inside(threading.local):
    """Where a thread is.

    Attributes:
        lane: what it is recorded in, unless it is the main one.
        depth: calls of modules around this place.
        outermost: the module whose call is the outermost.
        loading: a DataLoader makes a batch.
        inputs: what `torch.autograd.grad` was asked for.
    """

    lane: Lane | None = None
    depth = 0
    outermost: Callable[[], Any] = _nothing
    loading = False
    inputs: list[Any] = []  # noqa: RUF012 - replaced, never changed


class Recorder:
    """Watches this process. One per process; a forked child begins a new one when it trains itself."""

    def __init__(
        self, folder: Path, spec: RecordSpec, journal: Journal, thread: threading.Thread | None = None
    ) -> None:
        self.folder, self.spec, self.journal = folder, spec, journal
        self.installed = ExitStack()
        self.saves = Saves(self._safely(self.saved))
        self.graphs = Graphs(self._safely(self.graph_replayed))
        self._begin((thread or threading.main_thread()).ident or 0)

    def _begin(self, thread: int) -> None:
        self.pid, self.thread = os.getpid(), thread
        # Hooks of several threads come one at a time.
        self.lock = threading.RLock()
        self._inside_hooks = 0
        self._dead: deque[tuple[Lane, Holder | Held]] = deque()
        self._noted: set[str] = set()
        self.inside = _Inside()
        self.main = self._new_lane()
        # Those of other threads, as they came.
        self.lanes: list[Lane] = []
        self.handles: list[Any] = []

    # ---- lanes -------------------------------------------------------------------------------------------------------

    def _new_lane(self, number: int = 1, is_own_thread: bool = False) -> Lane:
        lane_id = current_lane_id(number) if number > 1 or is_own_thread else None
        log = Log(self.folder, self.spec, self.journal, lane_id)
        log.when_opened(self.finish)
        lane = new_lane(log, self._died, number=number, is_own_thread=is_own_thread)
        if self.spec.ops is not None and get_worker_info() is None:
            if is_own_thread:
                self._note_once("operations of threads other than the main one")
            else:
                # Only the first training of a process is followed and kept from: which one comes second is arrival.
                first = self.spec.ops if number == 1 else OpWindow(self.spec.ops.first, self.spec.ops.last)
                lane.ops = OpRecorder(log, first)
        return lane

    @property
    def lane(self) -> Lane:
        """What the calling thread is recorded in."""
        if threading.get_ident() == self.thread:
            return self.main
        lane = self.inside.lane
        if lane is None:
            lane = self.inside.lane = self._new_lane(is_own_thread=True)
            self.lanes.append(lane)
        return lane

    @property
    def log(self) -> Log:
        return self.lane.log

    @property
    def training(self) -> Training:
        return self.lane.training

    @property
    def models(self) -> Models:
        return self.lane.models

    @property
    def optimizers(self) -> Optimizers:
        return self.lane.optimizers

    @property
    def ops(self) -> OpRecorder | None:
        return self.lane.ops

    def _begin_training(self) -> None:
        """What was recorded in this thread is over; what comes now is another training."""
        lane = self.lane
        if self.is_active():
            self._finish(lane)
        following = self._new_lane(lane.number + 1, lane.is_own_thread)
        if lane.is_own_thread:
            self.lanes[self.lanes.index(lane)] = self.inside.lane = following
        else:
            self.main = following
            if following.ops is not None:
                following.ops.begin_step(0)

    def thread_ended(self, thread: Any) -> None:
        """Its last training is over."""
        lane = self.inside.lane
        if lane is not None:
            if self.is_active():
                self._finish(lane)
            self.lanes.remove(lane)
            self.inside.lane = None

    # ---- hooks -------------------------------------------------------------------------------------------------------

    def install(self) -> None:
        """Hook torch. Call once; what a process has to do at its end is done by `finish`."""
        remove_left_over()
        safely, undo = self._safely, self.installed.callback
        for handle in (
            register_optimizer_step_pre_hook(safely(self.before_step)),
            register_optimizer_step_post_hook(safely(self.after_step)),
        ):
            undo(_left_over.append, handle)
        self._watch_modules()
        undo(listen(torch.optim.Optimizer, "__init__", after=safely(self.optimizer_made)))
        for name, after in (("backward", self.after_backward), ("grad", self.after_grad)):
            before, failed = safely(getattr(self, f"before_{name}")), self.backward_failed
            undo(listen(torch.autograd, name, before=before, after=safely(after), failed=failed))
        functorch: Any = sys.modules.get("torch._functorch.eager_transforms")
        if hasattr(functorch, "_jvp_with_argnums"):
            undo(listen(functorch, "_jvp_with_argnums", after=safely(self.after_jvp)))
        undo(listen(torch.nn.Module, "__setstate__", after=safely(self.module_copied)))
        undo(listen(torch.nn.Module, "load_state_dict", after=safely(self.module_loaded)))
        self.saves.install(self.installed)
        self.graphs.install(self.installed)
        if hasattr(threading.Thread, "_delete"):
            undo(listen(threading.Thread, "_delete", before=safely(self.thread_ended)))
        iterator = torch.utils.data.dataloader._BaseDataLoaderIter
        made, failed = safely(self.batch_made), self.batch_failed
        undo(listen(iterator, "__next__", before=self.before_batch, after=made, failed=failed))
        if self.ops is not None:
            self.ops.begin_step(0)

    def uninstall(self) -> None:
        """Leave torch as it was."""
        if self.main.ops is not None:
            self.main.ops.abandon()
        while self.handles:
            self.handles.pop().remove()
        self.installed.close()
        remove_left_over()

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
            # Inside a compiled region this must vanish: the compiler folds the test and never looks further.
            if torch.compiler.is_compiling():
                return
            if self.graphs.is_capturing():
                if hook == self.after_step:
                    self.graphs.note_step(args[0])
                return
            with self.lock:
                self._inside_hooks += 1
                try:
                    hook(*args, **kwargs)
                except Exception as error:
                    self.log.failed(error)
                finally:
                    self._inside_hooks -= 1
                if self._dead:
                    self._look_at_the_dead()

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
        ours = {handle.id for handle in self.handles} | (self.main.ops.hook_ids if self.main.ops is not None else set())
        kinds = ("backward_pre", "backward", "forward_pre", "forward")
        return any(not ours.issuperset(getattr(hooks, f"_global_{kind}_hooks")) for kind in kinds)

    def _begin_in_child(self) -> None:
        # The parent's file must not be closed from here, not even by the garbage collector: it is kept, and left alone.
        handles, self.inherited = self.handles, [self.main, *self.lanes]
        if self.main.ops is not None:
            self.main.ops.abandon()
        self._begin(threading.get_ident())
        self.handles = handles

    def is_active(self) -> bool:
        """Whether this process trains: not a DataLoader worker, not broken by a full disk."""
        return not self.log.broken and get_worker_info() is None

    # ---- modules -----------------------------------------------------------------------------------------------------

    def module_called(self, module: Any, args: Any) -> None:
        # Inside a compiled region this must vanish: the compiler folds the test and never looks further.
        if torch.compiler.is_compiling():
            return
        inside = self.inside
        depth = inside.depth
        inside.depth = depth + 1
        # Replicas of DataParallel run in threads inside the call of a module that is seen itself.
        if depth and module is inside.outermost() and not _is_called_again():
            depth, inside.depth = 0, 1
        # Asked of the dictionary: a program's own `__getattr__` must not hear of names it does not know.
        if depth or inside.loading or module.__dict__.get("_is_replica", False):
            return
        if self.is_active():
            self._safely(self._outermost_called)(module, args)

    def module_returned(self, module: Any, args: Any, result: Any) -> None:
        if torch.compiler.is_compiling():
            return
        inside = self.inside
        depth = inside.depth = max(0, inside.depth - 1)
        if depth == 0 and result is not None and not inside.loading and self.is_active():
            self._safely(self._outermost_returned)(module, result)

    def _outermost_called(self, module: Any, args: Any) -> None:
        self.inside.outermost = weakref.ref(module)
        self._begin_if_over(module)
        training = self.training
        if training.forward_open and not training.has_optimizer and not training.has_backward:
            self._end_call()
        if self.ops is not None:
            # A forked child that trains itself begins here, and not when it is forked: it may be no such child.
            self.ops.begin_step(self.log.step)
        self.log.add("init", self.models.meet(module))
        self._look_at_copies(self.lane)
        if not training.has_loader:
            number = self.log.count("batch")
            self.log.add_tree("batch", args, f"{number}")
        training.forward_open = True

    def _outermost_returned(self, module: Any, result: Any) -> None:
        if not self.training.in_backward:
            self.training.returned(module, result)

    def module_copied(self, result: Any, module: Any, *_: Any) -> None:
        # Compilers copy and unpickle graphs of their own, more or fewer of them as their caches are filled.
        if self.is_active() and not isinstance(module, torch.fx.GraphModule) and not _is_tracing():
            self._begin_if_over(module)
            self.models.notice(module, COPIED)

    def module_loaded(self, result: Any, module: Any, *_: Any) -> None:
        if self.is_active() and not _is_tracing():
            self._begin_if_over(module)
            self.models.notice(module, LOADED)

    # ---- gradients ---------------------------------------------------------------------------------------------------

    def before_backward(self, *args: Any, **kwargs: Any) -> None:
        if self.is_active():
            losses = self._backward_begins(args[0] if args else kwargs.get("tensors"))
            training = self.training
            if not training.is_cut_at_steps and training.has_leaves is not False:
                found = [leaf for leaf in graph_leaves(losses) if self.models.name_of(leaf) is None]
                training.has_leaves = bool(found)
                training.note_leaves([(f"leaf{i}", leaf) for i, leaf in enumerate(found)])

    def before_grad(self, *args: Any, **kwargs: Any) -> None:
        if self.is_active():
            inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
            self.inside.inputs = [unwrapped(one) for one in _listed(inputs) if torch.is_tensor(one)]
            self._backward_begins(args[0] if args else kwargs.get("outputs"))

    def _backward_begins(self, tensors: Any) -> list[Any]:
        training = self.training
        if training.has_optimizer and not training.has_stepped and training.has_backward:
            # A compiled step has no hooks, and an optimizer may be there without being used.
            training.is_cut_at_backward |= any(held.is_written_to() for held in self.optimizers.all())
        training.has_backward, training.forward_open, training.in_backward = True, False, True
        training.drop_outputs()
        if self.ops is not None:
            self.ops.places.backward_called(sys._getframe())
        losses = [unwrapped(tensor) for tensor in _listed(tensors) if torch.is_tensor(tensor)]
        number = self.log.count("loss")
        named = [(f"{number}[{i}]" if len(losses) > 1 else f"{number}", t) for i, t in enumerate(losses)]
        self.log.add("loss", named)
        self.log.add_numbers(named)
        return losses

    def backward_failed(self, *_: Any) -> None:
        self.training.in_backward = False
        self.inside.inputs = []

    def after_backward(self, *_: Any, **__: Any) -> None:
        self.training.in_backward = False
        if not self.is_active():
            return
        if self.training.is_cut_at_steps:
            self._note_versions()
            return
        named = [*self.models.parameters(), *self._parameters_of_unseen_steps(), *self.training.last_leaves()]
        self.log.add("grad", gradients(named))
        self.log.add("param", named)
        self._end_step("backward")

    def after_grad(self, result: Any, *_: Any) -> None:
        training = self.training
        training.in_backward = False
        inputs, self.inside.inputs = self.inside.inputs, []
        if not self.is_active():
            return
        named = [(self.optimizers.name_of(one) or f"leaf{i}", one) for i, one in enumerate(inputs)]
        number = self.log.count("autograd.grad")
        prefix = f"{number}." if number else ""
        found = [
            (f"{prefix}{name}", unwrapped(g)) for (name, _), g in zip(named, result, strict=False) if g is not None
        ]
        self.log.add("grad", found)
        training.note_leaves(
            [(name, one) for name, one in named if one.is_leaf and self.optimizers.name_of(one) is None]
        )
        if not training.is_cut_at_steps:
            self.log.add("param", named)
            self._end_step("backward")

    def after_jvp(self, result: Any, function: Any, primals: Any, *_: Any) -> None:
        """Forward-mode derivatives: the value is the loss, the tangents are the gradients."""
        if not self.is_active():
            return
        training = self.training
        training.has_backward, training.forward_open = True, False
        number = self.log.count("jvp")
        self.log.add_tree("loss", result[0], f"jvp{number}.value")
        self.log.add_tree("grad", result[1], f"jvp{number}")
        if not training.is_cut_at_steps:
            self.log.add_tree("param", primals, f"jvp{number}.primal")
            self._end_step("backward")

    # ---- optimizers --------------------------------------------------------------------------------------------------

    def _begin_if_over(self, module: Any) -> None:
        """A worker whose training has stepped, and that turns to a model of which nothing was met, has another job."""
        if self.lane.is_over and get_worker_info() is None and self.models.is_new(module):
            self._begin_training()

    def optimizer_made(self, result: Any, optimizer: Any, *_: Any) -> None:
        if self.lane.is_over and get_worker_info() is None:
            self._begin_training()
        self.training.has_optimizer = True
        if self.is_active():
            self.optimizers.meet(optimizer)

    def before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self.is_active():
            return
        if self.ops is not None:
            self.ops.places.optimizer_called(optimizer)
        self.training.has_stepped = self.training.has_optimizer = True
        named, fresh = self.optimizers.named(self.optimizers.meet(optimizer))
        self.log.add("init", fresh)
        self.log.add("grad", gradients(named))

    def after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self.is_active():
            return
        if self.ops is not None:
            self.ops.places.optimizer_returned()
        held = self.optimizers.meet(optimizer)
        named, _ = self.optimizers.named(held)
        if not self.log.has("grad"):
            # A closure (LBFGS) calls backward inside the step: what it left behind is the gradient of this step.
            self.log.add("grad", gradients(named))
        self.log.add("param", named)
        held.note_versions()
        held.has_stepped = True
        if self.log.step < STATE_FIRST_STEPS or self.log.step % STATE_EVERY == 0:
            self.log.add_all("optimizer", held.tree())
        self._end_step("optimizer")

    def graph_replayed(self, optimizers: list[Any]) -> None:
        """A CUDA graph ran, and the steps of these optimizers with it."""
        if not self.is_active():
            return
        self._note_once(UNSEEN)
        for optimizer in optimizers:
            training = self.training
            training.has_stepped = training.has_optimizer = training.has_backward = True
            named, fresh = self.optimizers.named(self.optimizers.meet(optimizer))
            self.log.add("init", fresh)
            self.log.add("grad", gradients(named))
            self.log.add("param", named)
        if optimizers:
            self._end_step("optimizer")

    def _note_versions(self) -> None:
        """Until an optimizer is seen to step: how its parameters stand after a backward."""
        if not self.training.has_stepped:
            for held in self.optimizers.all():
                held.note_versions()

    def _parameters_of_unseen_steps(self) -> list[Named]:
        found: list[Named] = []
        for held in self.optimizers.all() if self.training.is_cut_at_backward else ():
            self.log.add("init", self.optimizers.named(held)[1])
            found += self.optimizers.own(held)
        return found

    # ---- data, and what is saved ------------------------------------------------------------------------------------

    def before_batch(self, *_: Any) -> None:
        self.inside.loading = True

    def batch_failed(self, *_: Any) -> None:
        self.inside.loading = False

    def batch_made(self, batch: Any, *_: Any) -> None:
        self.inside.loading = False
        if self.is_active():
            self.training.has_loader = True
            self.log.add_tree("batch", batch, f"{self.log.count('batch')}")

    def saved(self, thing: Any, file: str) -> None:
        if not self.is_active():
            return
        number = self.log.count("artifact")
        tensors: list[Named] = []
        numbers: list[tuple[str, int]] = []
        for path, leaf, tells_time in content(thing, f"{number}", file):
            if tells_time:
                self._note_once(
                    f"a number in what was saved, because it seems to be a time: {_key(path, number, file)}"
                )
            elif torch.is_tensor(leaf):
                tensors.append((path, unwrapped(leaf)))
            elif isinstance(leaf, bool | int | float | complex) and (digest := plain_digest(leaf)) is not None:
                numbers.append((path, digest))
            else:
                # One of each kind: a vocabulary has a hundred thousand texts.
                kind = kind_of(leaf)
                self._note_once(f"{kind} in what was saved, such as {_key(path, number, file)}", kind)
        self.log.add("artifact", tensors)
        if numbers:
            self.log.add_digests("artifact", [name for name, _ in numbers], [digest for _, digest in numbers])
        self.log.add("artifact", self._changed_states(f"{number}.state."))
        self._look_at_copies(self.lane)

    def _changed_states(self, prefix: str) -> list[Named]:
        """Of modules, what was written to since the last step digested it: it may be what is saved."""
        held = self.optimizers.all()
        versions = {id(p): version for one in held for p, version in zip(one.tensors, one.versions, strict=False)}
        return [
            (f"{prefix}{name}", tensor)
            for holder in self.models.holders()
            if holder.stage != COPIED
            for name, tensor in holder.changed_at_save(versions)
        ]

    def _note_once(self, what: str, sort: str = "") -> None:
        """Note what is not seen; of each sort the first."""
        if (sort or what) not in self._noted:
            self._noted.add(sort or what)
            self.journal.note("unseen", what=what)

    # ---- last looks --------------------------------------------------------------------------------------------------

    def _died(self, lane: Lane, thing: Holder | Held) -> None:
        """Called in whatever thread and place a module or an optimizer dies, also by the garbage collector."""
        if lane.log.broken or sys.is_finalizing() or self.pid != os.getpid():
            return
        self._dead.append((lane, thing))
        if self._may_look() and self.lock.acquire(blocking=False):
            try:
                # A digest that is under way must not be interrupted by another.
                if not self._inside_hooks:
                    self._look_at_the_dead()
            finally:
                self.lock.release()

    def _may_look(self) -> bool:
        return not _is_tracing() and self.spec.ops is None and not self.graphs.is_capturing()

    def _look_at_the_dead(self) -> None:
        self._inside_hooks += 1
        try:
            while self._dead:
                lane, thing = self._dead.popleft()
                if not lane.log.broken and get_worker_info() is None:
                    _look_at_last(lane, thing)
        except Exception as error:
            self.log.failed(error)
        finally:
            self._inside_hooks -= 1

    def _look_at_copies(self, lane: Lane) -> None:
        """Copies are told from what they were when they were new."""
        for holder in lane.models.new_copies():
            tensors = [tensor for _, tensor in holder.state() if is_evidence(tensor)]
            holder.at_first = digested(tensors) if tensors else ()

    # ---- the end of a step, and of the process ----------------------------------------------------------------------

    def _end_step(self, cut: str) -> None:
        lane = self.lane
        if self._close_row(lane, cut):
            self._stop()
        if lane.ops is not None and not lane.log.broken:
            lane.ops.begin_step(lane.log.step)

    def _close_row(self, lane: Lane, cut: str) -> bool:
        """Write a row; True when this was the last step that was asked for."""
        lane.training.forward_open = False
        lane.training.keep_outputs()
        lane.log.add("buffer", lane.models.changed_buffers())
        self._look_at_copies(lane)
        if lane.ops is not None:
            lane.ops.end_step()
        is_last = lane.log.end_step(cut)
        if lane.is_split and not lane.is_own_thread:
            # A pool ends its workers with a signal when it is left.
            lane.log.commit()
        return is_last

    def _end_call(self) -> None:
        """Where nothing is trained, a call of the outermost module is a step; of workers nobody knows the order."""
        if self.lane.only_calls:
            self._forget_call(self.lane)
        else:
            self._end_step("forward")

    def _forget_call(self, lane: Lane) -> None:
        self._note_once(f"what {lane.log.lane_id.name} computed without training: jobs come in any order")
        lane.training.forward_open = False
        lane.training.drop_outputs()
        lane.log.forget()

    def finish(self) -> None:
        """Write what came after the last step, and mark the recordings as complete."""
        if self.pid != os.getpid() or get_worker_info() is not None:
            return
        for lane in (self.main, *self.lanes):
            if not lane.log.broken:
                self._safely(self._finish)(lane)

    def _finish(self, lane: Lane) -> None:
        training, log = lane.training, lane.log
        only_calls = training.forward_open and not training.has_optimizer and not training.has_backward
        if only_calls and lane.only_calls:
            self._forget_call(lane)
        training.keep_outputs()
        if log.has_anything and (only_calls or not log.step):
            # Stopping is over with the end.
            self._close_row(lane, "backward" if training.has_backward else "forward")
        if lane.ops is not None:
            lane.ops.close()
        if log.has_anything:
            self._look_at_all(lane)
        log.close()

    def _look_at_all(self, lane: Lane) -> None:
        lane.models.look_again()
        self._look_at_the_dead()
        for holder in lane.models.holders():
            _look_at_last(lane, holder)
        for held in lane.optimizers.all():
            _look_at_last(lane, held)
        lane.log.add_end("end", (_OF_LEAVES,), lane.training.last_leaves())
        if lane.training.has_lost_leaves:
            self._note_once("the last values of tensors that gradients were computed for, which were gone at the end")

    def _stop(self) -> None:
        """Everything that was asked for is on disk: end the process here, or this recording where others may follow."""
        lane = self.lane
        lane.log.close(complete=False)
        if lane.is_split:
            self.journal.note("stopped", step=lane.log.step - 1, rank=lane.log.rank)
        else:
            end_process(self.journal, lane.log.step - 1, lane.log.rank)


def _look_at_last(lane: Lane, thing: Holder | Held) -> None:
    """Digest the last state of a module or an optimizer."""
    if isinstance(thing, Held):
        if thing.number is not None:
            order = (_OF_OPTIMIZER, thing.number)
            lane.log.add_end("optimizer", order, list(thing.tree()))
            lane.log.add_end("end", order, lane.optimizers.own(thing))
        return
    state = thing.state()
    if thing.stage != COPIED or _has_changed(thing, state):
        lane.log.add_end("end", (_OF_HOLDER, thing.order), state)


_OPTIMIZERS = register_optimizer_step_pre_hook.__code__.co_filename
# Hooks around steps of optimizers that are to be taken away.
_left_over: list[Any] = []


def _is_called_again() -> bool:
    """Whether the module whose call is about to be told was called inside its own call.

    Otherwise no call is around this one: what is no Exception leaves modules without any hook being told.
    """
    frame: FrameType | None = sys._getframe(2)
    calls = 0
    while frame is not None and calls < 2:
        calls += frame.f_code is torch.nn.Module._call_impl.__code__
        frame = frame.f_back
    return calls == 2


def remove_left_over() -> None:
    """Take hooks away that are not needed any more, unless another thread is walking through them right now."""
    here = threading.get_ident()
    if not any(_is_stepping(frame) for thread, frame in sys._current_frames().items() if thread != here):
        while _left_over:
            _left_over.pop().remove()


def _is_stepping(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _OPTIMIZERS:
            return True
        frame = frame.f_back
    return False


def _listed(tensors: Any) -> list[Any]:
    return list(tensors) if isinstance(tensors, list | tuple) else [tensors]


def _key(path: str, number: int, file: str) -> str:
    """What is said of a number's place: the same for all numbers of one list."""
    return re.sub(r"\[\d+\]", "[]", path.removeprefix(f"{number}").removeprefix(".")) or file


def _has_changed(copy: Holder, state: list[Named]) -> bool:
    """Whether a copy is no longer what it was; nobody knows of one that came and went between two looks."""
    if copy.at_first is None:
        return False
    now = digested(tensors) if (tensors := [tensor for _, tensor in state if is_evidence(tensor)]) else ()
    return _settled(copy.at_first) != _settled(now)


def _settled(part: Any) -> list[int]:
    return part.result() if isinstance(part, Pending) else list(part)


def _is_tracing() -> bool:
    """Whether a compiler is at work in this thread."""
    guards: Any = sys.modules.get("torch._guards")
    if guards is None:
        return False
    return guards.TracingContext.try_get() is not None or guards.CompileContext.try_get() is not None


def end_process(journal: Journal, last_step: int, rank: int) -> None:
    """End this process after a step, on purpose; what the program printed so far is printed."""
    journal.note("used", what=what_was_used())
    journal.note("end", stopped_after=last_step, rank=rank)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue
    os._exit(0)
