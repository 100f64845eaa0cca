"""Losses, gradients and steps of optimizers: what a row holds of them, and where it ends.

`backward`, `torch.autograd.grad` and forward-mode derivatives are listened to; of optimizers, gradients are seen before
a step and parameters after it. Also, who steps on parameters that lie in memory which processes share, and in which
memory.
"""

from __future__ import annotations

import gc
import sys
import threading
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import get_worker_info

from samebits.agent.graphs import UNSEEN
from samebits.agent.listening import gradients, graph_leaves, listen, unwrapped
from samebits.base.sites import user_site
from samebits.runfolder.notes import Journal, SteppedShared

if TYPE_CHECKING:
    from samebits.agent.lanes import Lane
    from samebits.agent.log import Log
    from samebits.agent.rows import Rows

# An optimizer's state is the largest stream and the last to tell anything new: it follows from gradients, and whatever
# is in it reaches the parameters. It is digested in the first steps, in every tenth, and when the process ends.
STATE_FIRST_STEPS = 3
STATE_EVERY = 10

_MAPS = Path("/proc/self/maps")
_OPTIMIZERS = register_optimizer_step_pre_hook.__code__.co_filename
# Hooks around steps of optimizers that are to be taken away.
_left_over: list[Any] = []


class GradientHooks:
    """What the recorder learns from computing gradients."""

    def __init__(self, recorder: Rows) -> None:
        self.recorder = recorder

    def install(self, stack: ExitStack) -> None:
        """Be called around everything that computes gradients."""
        told, undo = self.recorder.told, stack.callback
        for name, before, after in (
            ("backward", told(self.before_backward), told(self.after_backward)),
            ("grad", told(self.before_grad), self.recorder.safely(self.after_grad)),
        ):
            undo(listen(torch.autograd, name, before=before, after=after, failed=self.backward_failed))
        functorch: object = sys.modules.get("torch._functorch.eager_transforms")
        if hasattr(functorch, "_jvp_with_argnums"):
            undo(listen(functorch, "_jvp_with_argnums", after=told(self.after_jvp)))

    def before_backward(self, lane: Lane, *args: object, **kwargs: object) -> None:
        losses = self._backward_begins(lane, args[0] if args else kwargs.get("tensors"))
        if not lane.is_cut_at_steps and lane.has_leaves is not False:
            found = [leaf for leaf in graph_leaves(losses) if lane.models.name_of(leaf) is None]
            lane.has_leaves = bool(found)
            lane.note_leaves([(f"leaf{i}", leaf) for i, leaf in enumerate(found)])

    def before_grad(self, lane: Lane, *args: object, **kwargs: object) -> None:
        inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
        self.recorder.inside.inputs = [unwrapped(one) for one in _listed(inputs) if torch.is_tensor(one)]
        self._backward_begins(lane, args[0] if args else kwargs.get("outputs"))

    def _backward_begins(self, lane: Lane, tensors: object) -> list[object]:
        log = lane.log
        if lane.has_optimizer and not lane.has_stepped and lane.has_backward:
            # A compiled step has no hooks, and an optimizer may be there without being used.
            lane.is_cut_at_backward |= any(held.is_written_to() for held in lane.optimizers.all())
        lane.has_backward, lane.forward_open, lane.in_backward = True, False, True
        lane.drop_outputs()
        if lane.ops is not None:
            lane.ops.places.backward_called(sys._getframe())
        losses = [unwrapped(tensor) for tensor in _listed(tensors) if torch.is_tensor(tensor)]
        number = log.count("loss")
        named = [(f"{number}[{i}]" if len(losses) > 1 else f"{number}", t) for i, t in enumerate(losses)]
        log.add("loss", named)
        log.add_numbers(named)
        return losses

    def backward_failed(self, *_: object) -> None:
        self.recorder.lane.in_backward = False
        self.recorder.inside.inputs = []

    def after_backward(self, lane: Lane, *_: object, **__: object) -> None:
        lane.in_backward = False
        if lane.is_cut_at_steps:
            # Until an optimizer is seen to step: how its parameters stand after a backward.
            for held in lane.optimizers.all() if not lane.has_stepped else ():
                held.note_versions()
            return
        named = lane.models.parameters()
        for held in lane.optimizers.all() if lane.is_cut_at_backward else ():
            lane.log.add("init", lane.optimizers.named(held)[1])
            named += lane.optimizers.own(held)
        named += lane.last_leaves()
        lane.log.add("grad", gradients(named))
        lane.log.add("param", named)
        self.recorder.end_step("backward")

    def after_grad(self, result: Any, *_: object) -> None:
        inputs, self.recorder.inside.inputs = self.recorder.inside.inputs, []
        lane = self.recorder.active_lane()
        if lane is None:
            return
        lane.in_backward = False
        name_of = lane.optimizers.name_of
        named = [(name_of(one) or f"leaf{i}", one) for i, one in enumerate(inputs)]
        number = lane.log.count("autograd.grad")
        prefix = f"{number}." if number else ""
        pairs = zip(named, result, strict=False)
        lane.log.add("grad", [(f"{prefix}{name}", unwrapped(g)) for (name, _), g in pairs if g is not None])
        lane.note_leaves([(name, one) for name, one in named if one.is_leaf and name_of(one) is None])
        if not lane.is_cut_at_steps:
            lane.log.add("param", named)
            self.recorder.end_step("backward")

    def after_jvp(self, lane: Lane, result: Any, function: object, primals: object, *_: object) -> None:
        """Forward-mode derivatives: the value is the loss, the tangents are the gradients."""
        log = lane.log
        lane.has_backward, lane.forward_open = True, False
        number = log.count("jvp")
        log.add_trees("loss", [(f"jvp{number}.value", result[0])])
        log.add_trees("grad", [(f"jvp{number}", result[1])])
        if not lane.is_cut_at_steps:
            log.add_trees("param", [(f"jvp{number}.primal", primals)])
            self.recorder.end_step("backward")


def _listed(tensors: object) -> list[object]:
    return list(tensors) if isinstance(tensors, list | tuple) else [tensors]


class OptimizerHooks:
    """What the recorder learns from optimizers: the end of a step, also inside a CUDA graph."""

    def __init__(self, recorder: Rows) -> None:
        self.recorder = recorder
        self.is_training = True
        self._after_step = recorder.told(self.after_step)

    def install(self, stack: ExitStack) -> None:
        """Be called when optimizers are made and stepped, and when a CUDA graph runs."""
        remove_left_over()
        told, safely = self.recorder.told, self.recorder.safely
        for handle in (
            register_optimizer_step_pre_hook(told(self.before_step)),
            register_optimizer_step_post_hook(self._stepped),
        ):
            stack.callback(_left_over.append, handle)
        # One that was unpickled or copied never ran `__init__`.
        for made in ("__init__", "__setstate__"):
            stack.callback(listen(torch.optim.Optimizer, made, after=safely(self.optimizer_made)))
        self.recorder.graphs.install(stack, told(self.graph_replayed))

    def optimizer_made(self, result: object, optimizer: torch.optim.Optimizer, *_: object) -> None:
        if self.recorder.lane.is_over and get_worker_info() is None:
            self.recorder.begin_training()
        self.recorder.lane.has_optimizer = True
        lane = self.recorder.active_lane()
        if lane is not None:
            lane.optimizers.meet(optimizer)

    def before_step(self, lane: Lane, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        if lane.ops is not None:
            lane.ops.places.optimizer_called(optimizer)
        has_closure = _has_closure(args, kwargs)
        self.is_training = has_closure or not _only_fills_in(optimizer, lane.log)
        if self.is_training:
            lane.has_stepped = lane.has_optimizer = True
            # A closure calls the model, which names the parameters, and backward: what is there now is of before.
            if not has_closure:
                self._note_before(lane, optimizer)

    def _note_before(self, lane: Lane, optimizer: torch.optim.Optimizer) -> list[tuple[str, Any]]:
        named, fresh = lane.optimizers.named(lane.optimizers.meet(optimizer))
        lane.log.add("init", fresh)
        lane.log.add("grad", gradients(named))
        return named

    def after_step(self, lane: Lane, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        if lane.ops is not None:
            lane.ops.places.optimizer_returned()
        if not self.is_training:
            return
        held, log = lane.optimizers.meet(optimizer), lane.log
        named, _ = lane.optimizers.named(held)
        if not log.has("grad"):
            # A closure calls backward inside the step: what it left behind is the gradient of this step.
            log.add("grad", gradients(named))
        log.add("param", named)
        held.note_versions()
        if not held.has_stepped:
            held.has_stepped = True
            _note_shared(self.recorder.journal, held.tensors)
        is_resume = log.spec.resume is not None
        if is_resume or log.step < STATE_FIRST_STEPS or log.step % STATE_EVERY == 0:
            log.add_trees("optimizer", held.tree())
        self.recorder.end_step("optimizer")

    def _stepped(self, optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        if torch.compiler.is_compiling():
            return
        if self.recorder.graphs.is_capturing():
            self.recorder.graphs.note_step(optimizer)
        self._after_step(optimizer, args, kwargs)

    def graph_replayed(self, lane: Lane, optimizers: list[Any]) -> None:
        """A CUDA graph ran, and the steps of these optimizers with it."""
        self.recorder.note_once(UNSEEN)
        for optimizer in optimizers:
            lane.has_stepped = lane.has_optimizer = lane.has_backward = True
            lane.log.add("param", self._note_before(lane, optimizer))
        if optimizers:
            self.recorder.end_step("optimizer")


def _note_shared(journal: Journal, parameters: Iterable[Any]) -> None:
    """Note the user's line that steps, and the memory that it changes; nothing where no other process can see it."""
    shared = [one for one in parameters if one.device.type == "cpu" and one.is_shared()]
    site = user_site() if shared else None
    if site is not None:
        journal.note(SteppedShared(tuple(sorted(_memory_of(shared))), site))


def _memory_of(tensors: Iterable[torch.Tensor]) -> set[str]:
    """The files behind some tensors, by device and number: the same in all processes that share them (proc(5)).

    Empty where the system does not show them.
    """
    lines = _MAPS.read_text().splitlines() if _MAPS.exists() else []
    mapped = sorted(
        (int(first, 16), int(last, 16), f"{device} {number}")
        for span, _, _, device, number in (line.split()[:5] for line in lines)
        for first, last in [span.split("-")]
    )
    places = (bisect_right(mapped, (one.data_ptr(), 2**64, "")) - 1 for one in tensors)
    return {mapped[place][2] for place in places if place >= 0}


def _only_fills_in(optimizer: torch.optim.Optimizer, log: Log) -> bool:
    """Whether a step trains nothing, and only makes state that can be loaded into.

    So does `torch.distributed.checkpoint`: nothing was computed for it, and rates and gradients are all zero.
    """
    if log.has("loss") or log.has("grad") or any(not _is_zero(one.get("lr", 1)) for one in optimizer.param_groups):
        return False
    tensors = (tensor.grad for group in optimizer.param_groups for tensor in group["params"])
    return all(gradient is None or not bool(gradient.any()) for gradient in tensors)


def _is_zero(rate: Any) -> bool:
    return bool(rate == 0) if not torch.is_tensor(rate) or rate.device.type == "cpu" else False


def _has_closure(args: Any, kwargs: Any) -> bool:
    """Whether a step was asked to compute its gradients itself; its arguments begin with the optimizer."""
    return callable(kwargs.get("closure") or next(iter(args[1:]), None))


def remove_left_over() -> None:
    """Take hooks away that are not needed any more, unless another thread is walking through them right now."""
    here = threading.get_ident()
    # It holds a lock of the interpreter, for which a `threading.local` waits that is collected meanwhile (gh-106883).
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        frames = sys._current_frames()
    finally:
        if is_collecting:
            gc.enable()
    if not any(_is_stepping(frame) for thread, frame in frames.items() if thread != here):
        while _left_over:
            _left_over.pop().remove()


def _is_stepping(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _OPTIMIZERS:
            return True
        frame = frame.f_back
    return False
