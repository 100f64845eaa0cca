"""Losses and gradients: `backward`, `torch.autograd.grad`, and forward-mode derivatives."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import torch

from samebits.agent.listening import gradients, graph_leaves, listen, unwrapped

if TYPE_CHECKING:
    from samebits.agent.lanes import Lane
    from samebits.agent.rows import Rows


class GradientHooks:
    """What the recorder learns from computing gradients."""

    def __init__(self, recorder: Rows) -> None:
        self.recorder = recorder

    def install(self, stack: ExitStack) -> None:
        """Be called around everything that computes gradients."""
        safely, undo = self.recorder.safely, stack.callback
        for name, after in (("backward", self.after_backward), ("grad", self.after_grad)):
            before, failed = safely(getattr(self, f"before_{name}")), self.backward_failed
            undo(listen(torch.autograd, name, before=before, after=safely(after), failed=failed))
        functorch: object = sys.modules.get("torch._functorch.eager_transforms")
        if hasattr(functorch, "_jvp_with_argnums"):
            undo(listen(functorch, "_jvp_with_argnums", after=safely(self.after_jvp)))

    def before_backward(self, *args: object, **kwargs: object) -> None:
        lane = self.recorder.active_lane()
        if lane is not None:
            losses = self._backward_begins(lane, args[0] if args else kwargs.get("tensors"))
            training = lane.training
            if not training.is_cut_at_steps and training.has_leaves is not False:
                found = [leaf for leaf in graph_leaves(losses) if lane.models.name_of(leaf) is None]
                training.has_leaves = bool(found)
                training.note_leaves([(f"leaf{i}", leaf) for i, leaf in enumerate(found)])

    def before_grad(self, *args: object, **kwargs: object) -> None:
        lane = self.recorder.active_lane()
        if lane is not None:
            inputs = args[1] if len(args) > 1 else kwargs.get("inputs")
            self.recorder.inside.inputs = [unwrapped(one) for one in _listed(inputs) if torch.is_tensor(one)]
            self._backward_begins(lane, args[0] if args else kwargs.get("outputs"))

    def _backward_begins(self, lane: Lane, tensors: object) -> list[object]:
        training, log = lane.training, lane.log
        if training.has_optimizer and not training.has_stepped and training.has_backward:
            # A compiled step has no hooks, and an optimizer may be there without being used.
            training.is_cut_at_backward |= any(held.is_written_to() for held in lane.optimizers.all())
        training.has_backward, training.forward_open, training.in_backward = True, False, True
        training.drop_outputs()
        if lane.ops is not None:
            lane.ops.places.backward_called(sys._getframe())
        losses = [unwrapped(tensor) for tensor in _listed(tensors) if torch.is_tensor(tensor)]
        number = log.count("loss")
        named = [(f"{number}[{i}]" if len(losses) > 1 else f"{number}", t) for i, t in enumerate(losses)]
        log.add("loss", named)
        log.add_numbers(named)
        return losses

    def backward_failed(self, *_: object) -> None:
        self.recorder.lane.training.in_backward = False
        self.recorder.inside.inputs = []

    def after_backward(self, *_: object, **__: object) -> None:
        lane = self.recorder.lane
        training, optimizers = lane.training, lane.optimizers
        training.in_backward = False
        if not self.recorder.is_active():
            return
        if training.is_cut_at_steps:
            # Until an optimizer is seen to step: how its parameters stand after a backward.
            for held in optimizers.all() if not training.has_stepped else ():
                held.note_versions()
            return
        named = lane.models.parameters()
        for held in optimizers.all() if training.is_cut_at_backward else ():
            lane.log.add("init", optimizers.named(held)[1])
            named += optimizers.own(held)
        named += training.last_leaves()
        lane.log.add("grad", gradients(named))
        lane.log.add("param", named)
        self.recorder.end_step("backward")

    def after_grad(self, result: Any, *_: object) -> None:
        lane = self.recorder.lane
        training, name_of = lane.training, lane.optimizers.name_of
        training.in_backward = False
        inputs, self.recorder.inside.inputs = self.recorder.inside.inputs, []
        if not self.recorder.is_active():
            return
        named = [(name_of(one) or f"leaf{i}", one) for i, one in enumerate(inputs)]
        number = lane.log.count("autograd.grad")
        prefix = f"{number}." if number else ""
        pairs = zip(named, result, strict=False)
        lane.log.add("grad", [(f"{prefix}{name}", unwrapped(g)) for (name, _), g in pairs if g is not None])
        training.note_leaves([(name, one) for name, one in named if one.is_leaf and name_of(one) is None])
        if not training.is_cut_at_steps:
            lane.log.add("param", named)
            self.recorder.end_step("backward")

    def after_jvp(self, result: Any, function: object, primals: object, *_: object) -> None:
        """Forward-mode derivatives: the value is the loss, the tangents are the gradients."""
        lane = self.recorder.active_lane()
        if lane is None:
            return
        training, log = lane.training, lane.log
        training.has_backward, training.forward_open = True, False
        number = log.count("jvp")
        log.add_tree("loss", result[0], f"jvp{number}.value")
        log.add_tree("grad", result[1], f"jvp{number}")
        if not training.is_cut_at_steps:
            log.add_tree("param", primals, f"jvp{number}.primal")
            self.recorder.end_step("backward")


def _listed(tensors: object) -> list[object]:
    return list(tensors) if isinstance(tensors, list | tuple) else [tensors]
