"""A lane: one training while it runs, what its current row holds, and the log to which its rows go.

A lane belongs to the main thread, to another thread, or to one of several trainings of a worker. A worker takes
whichever job comes next, so all that one process or thread does depends on the order of arrival, and only single
trainings can be compared between runs. A worker's new training begins with a new optimizer or model after a step.

The last state of a module or an optimizer is digested when it dies; that of whatever is left, at the end.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from samebits.agent.events import Event
from samebits.agent.identity import VersionedRef
from samebits.agent.log import Log, Part, evidence, tensors_in
from samebits.agent.models import COPIED, LOADED, HeldModule, HeldOptimizer, Models, Optimizers, holds_any
from samebits.agent.shared import note_shared
from samebits.agent.steps import Act, StepMachine
from samebits.agent.taps.graphs import UNSEEN
from samebits.agent.tensors import Named, as_tensor, gradients, graph_leaves, unwrapped
from samebits.agent.trees import leaves, plain_digest, saved
from samebits.base.ranks import current_rank
from samebits.base.sites import is_user_file
from samebits.bits.digest import Pending

if TYPE_CHECKING:
    from samebits.agent.ops.mode import OpRecorder

# In the end row, last states are ordered by these kinds of objects.
_OF_HOLDER, _OF_OPTIMIZER, _OF_LEAVES = range(3)
# An optimizer's state is the largest stream and the last to show anything new: it follows from gradients and reaches
# the parameters. It is digested in the first steps, every tenth (all where checkpoints are watched), and at the end.
_STATE_FIRST_STEPS, _STATE_EVERY = 3, 10
# Objects whose last state is digested when they die, or at the end.
Last = HeldModule | HeldOptimizer


class Lane:
    """One recorded training: number `number`, from 1, of its recorder's main thread or of a thread of its own."""

    def __init__(
        self,
        log: Log,
        number: int,
        is_own_thread: bool,
        died: Callable[[Lane, Last], None],  # this object needs a last look
        row_ended: Callable[[Lane, str], None],  # the row was cut by a step of this name
        unseen: Callable[[str], None],
    ) -> None:
        self.log, self.number, self.is_own_thread = log, number, is_own_thread
        # The thread that trains here; None while it trains something else, and nobody has gone on with this.
        self.thread: int | None = threading.get_ident()
        self._row_ended, self._unseen = row_ended, unseen
        self.models = Models(lambda holder: died(self, holder))
        self.optimizers = Optimizers(self.models, lambda held: died(self, held))
        self.ops: OpRecorder | None = None
        serves_jobs = _serves_jobs()
        self.machine = StepMachine(lambda: serves_jobs and self.is_split)
        # The module whose call opened the current row.
        self._opened_by: VersionedRef | None = None
        # Whether everything in the last batch of a loader could be digested.
        self._has_loader = False
        # Tensors that are trained by hand, with their names, as of when gradients were last computed for them.
        self._has_leaves: bool | None = None
        self._leaves: list[tuple[str, VersionedRef]] = []
        self._has_lost_leaves = False
        self._outputs: list[tuple[VersionedRef, list[str], Part]] = []
        self.event_handlers: dict[Event, Callable[..., object]] = {
            Event.CALLED: self._called,
            Event.RETURNED: self._returned,
            Event.COPIED: lambda module: self.models.name_uncalled(module, COPIED),
            Event.LOADED: lambda module: self.models.name_uncalled(module, LOADED),
            Event.BACKWARD_BEGINS: self._backward_begins,
            Event.BACKWARD_ENDS: self._backward_ends,
            Event.BACKWARD_FAILED: lambda: self.machine(Event.BACKWARD_FAILED),
            Event.DERIVED: self._derived,
            Event.OPTIMIZER_MADE: self._optimizer_made,
            Event.STEP_BEGINS: self._step_begins,
            Event.STEP_ENDS: self._step_ends,
            Event.REPLAYED: self._replayed,
            Event.FETCHED: self._fetched,
            Event.SAVES: self._saves,
        }

    @property
    def is_split(self) -> bool:
        """Whether every training here gets a recording of its own, and no training may end the process."""
        return self.is_own_thread or (_is_child() and current_rank() is None)

    @property
    def is_over(self) -> bool:
        """Whether the next new optimizer or model begins another training."""
        return self.is_split and (self.machine.has_stepped or self.log.has_stopped)

    @property
    def is_unused(self) -> bool:
        """Whether a thread has just begun, and made or called nothing."""
        return self.is_own_thread and not (self.log.has_anything or self.machine.has_optimizer)

    @property
    def is_alive(self) -> bool:
        """Whether anything may still change that is recorded here."""
        return bool(self.models.holders() or self.optimizers.all())

    def trains(self, module: object) -> bool:
        """Whether an optimizer has stepped here that holds a parameter of this module."""
        if not isinstance(module, torch.nn.Module):
            return False
        held = {id(tensor) for one in self.optimizers.all() if one.has_stepped for tensor in one.tensors}
        return any(id(parameter) in held for parameter in module.parameters())

    # ---- modules

    def _called(self, module: torch.nn.Module, args: object) -> None:
        machine, was_open = self.machine, self.machine.is_open
        act = machine(Event.CALLED, machine.is_untrained_call and self._begins_another(module, args))
        if act is Act.CUT:
            self._row_ended(self, "forward")
        elif act is Act.DROP:
            self._forget_call()
        if act is not Act.KEEP or not was_open:
            self._opened_by = VersionedRef(module)
        if self.ops is not None:
            # A forked child begins to record operations here and not at the fork, since it may never train.
            self.ops.begin_step(self.log.step)
        self.log.add("init", self.models.meet(module))
        self._digest_new_copies()
        if not self._has_loader:
            self._note_given(args)

    def _note_given(self, args: object) -> None:
        """Digest the data that a module is called with, but not what other modules computed from data."""
        data = [(path, leaf) for path, leaf in leaves(args) if not _is_computed(leaf)]
        if data:
            number = self.log.count("batch")
            self.log.add_trees("batch", [(f"{number}{path}", leaf) for path, leaf in data])

    def _begins_another(self, module: torch.nn.Module, args: object) -> bool:
        """Whether a call begins another step. A loss begins none, whatever it holds: it takes what a model computed."""
        if self._opened_by is not None and self._opened_by() is module:
            return True
        goes_on = any(_is_computed(leaf) for _, leaf in leaves(args))
        return holds_any(module) and not goes_on

    def _returned(self, module: torch.nn.Module, result: object) -> None:
        """Digest what an outermost module returned; a backward that follows discards it."""
        if self.machine(Event.RETURNED) is Act.DROP:
            return
        number = self.log.count("output")
        named, part = evidence(tensors_in(result, f"{number}"))
        if not named:
            return
        for_training = module.training and any(tensor.requires_grad for _, tensor in named)
        names = [name for name, _ in named]
        if not for_training:
            self.log.add_digests("output", names, part)
            return
        # If this module was called before and no backward followed, its earlier output was not made for one.
        self._record_outputs(module)
        self._outputs.append((VersionedRef(module), names, part))

    def _record_outputs(self, module: object = None) -> None:
        """Record outputs of a module (or of all) that no backward was called on: they are results."""
        waiting, self._outputs = self._outputs, []
        for output in waiting:
            if module is None or output[0]() is module:
                self.log.add_digests("output", output[1], output[2])
            else:
                self._outputs.append(output)

    # ---- gradients

    def _backward_begins(self, tensors: object, fills_leaves: bool) -> None:
        log, machine = self.log, self.machine
        may_be_cut = machine.has_optimizer and not machine.has_stepped and machine.has_backward
        machine(Event.BACKWARD_BEGINS, may_be_cut and any(held.is_written_to() for held in self.optimizers.all()))
        # These outputs were made for a backward: the loss and the gradients show all that they would show.
        self._outputs = []
        if self.ops is not None:
            self.ops.places.backward_called(sys._getframe())
        losses = [unwrapped(tensor) for tensor in _listed(tensors) if torch.is_tensor(tensor)]
        number = log.count("loss")
        named = [(f"{number}[{i}]" if len(losses) > 1 else f"{number}", t) for i, t in enumerate(losses)]
        log.add("loss", named)
        log.add_numbers(named)
        if fills_leaves and not machine.is_cut_at_steps and self._has_leaves is not False:
            unnamed = [leaf for leaf in graph_leaves(losses) if self.models.name_of(leaf) is None]
            self._has_leaves = bool(unnamed)
            self._note_leaves([(f"leaf{i}", leaf) for i, leaf in enumerate(unnamed)])

    def _backward_ends(self, found: Sequence[torch.Tensor | None] | None = None, inputs: object = None) -> None:
        act = self.machine(Event.BACKWARD_ENDS)
        if found is not None:
            self._record_autograd_grad(found, inputs, act)
        elif act is Act.CUT:
            self._cut_at_backward()
        elif not self.machine.has_stepped:
            # Until an optimizer is seen to step, the versions of its parameters are noted after each backward.
            for held in self.optimizers.all():
                held.note_versions()

    def _cut_at_backward(self) -> None:
        named = self.models.parameters()
        for held in self.optimizers.all() if self.machine.is_cut_at_backward else ():
            self.log.add("init", self.optimizers.named(held)[1])
            named += self.optimizers.without_module(held)
        named += self._last_leaves()
        self._add_begun(named)
        self.log.add("grad", gradients(named))
        self.log.add("param", named)
        self._row_ended(self, "backward")

    def _record_autograd_grad(self, found: Sequence[torch.Tensor | None], inputs: object, act: Act) -> None:
        """Record the gradients that `torch.autograd.grad` returned."""
        name_of = self.optimizers.name_of
        tensors = [unwrapped(tensor) for tensor in _listed(inputs) if torch.is_tensor(tensor)]
        named = [(name_of(tensor) or f"leaf{i}", tensor) for i, tensor in enumerate(tensors)]
        number = self.log.count("autograd.grad")
        prefix = f"{number}." if number else ""
        pairs = zip(named, found, strict=False)
        self.log.add("grad", [(f"{prefix}{name}", unwrapped(g)) for (name, _), g in pairs if g is not None])
        self._note_leaves([(name, tensor) for name, tensor in named if tensor.is_leaf and name_of(tensor) is None])
        if act is Act.CUT:
            self._add_begun(named)
            self.log.add("param", named)
            self._row_ended(self, "backward")

    def _derived(self, result: tuple[object, object], primals: object) -> None:
        """Record forward-mode derivatives: the value is the loss, the tangents are the gradients."""
        act, number = self.machine(Event.DERIVED), self.log.count("jvp")
        self.log.add_trees("loss", [(f"jvp{number}.value", result[0])])
        self.log.add_trees("grad", [(f"jvp{number}", result[1])])
        if act is Act.CUT:
            self.log.add_trees("param", [(f"jvp{number}.primal", primals)])
            self._row_ended(self, "backward")

    def _note_leaves(self, named: list[Named]) -> None:
        """Note tensors that are trained by hand, under their names."""
        leaves_by_name = dict(self._leaves)
        for name, leaf in named:
            earlier = leaves_by_name.get(name)
            self._has_lost_leaves |= earlier is not None and earlier() is not leaf
            leaves_by_name[name] = VersionedRef(leaf)
        self._leaves = list(leaves_by_name.items())

    def _last_leaves(self) -> list[Named]:
        """Return the tensors trained by hand that are still alive."""
        alive = [(name, leaf()) for name, leaf in self._leaves]
        self._has_lost_leaves |= any(leaf is None for _, leaf in alive)
        return [(name, leaf) for name, leaf in alive if leaf is not None]

    # ---- optimizers

    def _optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        self.machine(Event.OPTIMIZER_MADE)
        self.optimizers.meet(optimizer)

    def _step_begins(self, optimizer: torch.optim.Optimizer, has_closure: bool) -> None:
        if self.ops is not None:
            self.ops.places.is_stepping = True
        act = self.machine(Event.STEP_BEGINS, has_closure or not self._only_initializes_state(optimizer))
        # A closure will call the model, which names the parameters, and backward: gradients of now are from before.
        if act is Act.KEEP and not has_closure:
            self._add_begun(self._note_before(optimizer))
        elif act is Act.KEEP and (held := self.optimizers.meet(optimizer)).has_stepped:
            self._add_begun(self.optimizers.named(held)[0])

    def _only_initializes_state(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether a step only makes state to load into, as `torch.distributed.checkpoint` does with rates of zero."""
        groups = optimizer.param_groups
        if self.log.has("loss") or self.log.has("grad") or any(not _is_zero(group.get("lr", 1)) for group in groups):
            return False
        grads = (tensor.grad for group in groups for tensor in group["params"])
        return all(gradient is None or not bool(gradient.any()) for gradient in grads)

    def _add_begun(self, named: Sequence[Named]) -> None:
        """Add the parameters that a step begins with, if checkpoints are watched: steps before may have been undone."""
        if self.log.spec.resume is not None:
            self.log.add("begun", named)

    def _note_before(self, optimizer: torch.optim.Optimizer) -> list[Named]:
        named, fresh = self.optimizers.named(self.optimizers.meet(optimizer))
        self.log.add("init", fresh)
        self.log.add("grad", gradients(named))
        return named

    def _step_ends(self, optimizer: torch.optim.Optimizer) -> None:
        if self.ops is not None:
            self.ops.places.is_stepping = False
        if self.machine(Event.STEP_ENDS) is Act.DROP:
            return
        held, log = self.optimizers.meet(optimizer), self.log
        named, _ = self.optimizers.named(held)
        if not log.has("grad"):
            # A closure calls backward inside the step: the gradients that it left are those of this step.
            log.add("grad", gradients(named))
        log.add("param", named)
        held.note_versions()
        if not held.has_stepped:
            held.has_stepped = True
            note_shared(log.journal, held.tensors)
        if log.spec.resume is not None or log.step < _STATE_FIRST_STEPS or log.step % _STATE_EVERY == 0:
            log.add_trees("optimizer", held.tree())
        self._row_ended(self, "optimizer")

    def _replayed(self, optimizers: list[torch.optim.Optimizer]) -> None:
        """Record that a CUDA graph ran, and with it the steps of these optimizers."""
        self._unseen(UNSEEN)
        for optimizer in optimizers:
            self.log.add("param", self._note_before(optimizer))
        if optimizers:
            self.machine(Event.REPLAYED)
            self._row_ended(self, "optimizer")

    # ---- data, and what is saved

    def _fetched(self, iterator: object, batch: object) -> None:
        undigested = self.log.add_trees("batch", [(f"{self.log.count('batch')}", batch)])
        # Where a batch cannot be digested whole, the data that models are called with are recorded, too.
        self._has_loader = not undigested
        for kind in undigested:
            self._unseen(f"what is in a {kind} of a batch")

    def _saves(self, thing: object) -> None:
        """Digest what is saved: tensors are the state of a training; all else may be a time, and only adds detail."""
        log = self.log
        number = log.count("artifact")
        saved_leaves = list(saved(thing, f"{number}"))
        log.add("artifact", [(path, unwrapped(leaf)) for path, leaf in saved_leaves if torch.is_tensor(leaf)])
        others = [(path, leaf) for path, leaf in saved_leaves if not torch.is_tensor(leaf)]
        log.add("saved", [(path, tensor) for path, leaf in others if (tensor := as_tensor(leaf)) is not None])
        plain_digests = [(path, digest) for path, leaf in others if (digest := plain_digest(leaf)) is not None]
        log.add_digests("saved", [path for path, _ in plain_digests], [digest for _, digest in plain_digests])
        # Also digest what was written to in modules since the last step digested them: it may be what is saved.
        all_held = self.optimizers.all()
        versions = {id(p): v for held in all_held for p, v in zip(held.tensors, held.versions, strict=False)}
        holders = [holder for holder in self.models.holders() if holder.stage != COPIED]
        log.add(
            "artifact", [(f"{number}.state.{key}", t) for held in holders for key, t in held.changed_at_save(versions)]
        )
        self._digest_new_copies()

    # ---- the end of a row, and of the lane

    def close_row(self, cut: str) -> bool:
        """End the current row; True when the run ends with it."""
        self._record_outputs()
        watches_checkpoints = self.log.spec.resume is not None
        self.log.add("buffer", self.optimizers.untrained() if watches_checkpoints else self.models.changed_buffers())
        self._digest_new_copies()
        if self.ops is not None:
            self.ops.end_step()
        is_last = self.log.end_step(cut)
        if self.is_split and not self.is_own_thread:
            # A pool kills its workers with a signal when the program leaves it.
            self.log.commit()
        return is_last

    def _forget_call(self) -> None:
        self._unseen(f"what {self.log.lane_id.name} computed without training: timing decides which job it gets")
        self._outputs = []
        self.log.begin_row()

    def finish(self, look_at_the_dead: Callable[[], None]) -> None:
        """Write what came after the last step, and the last state of all that is still alive."""
        log, act = self.log, self.machine(Event.ENDS)
        if act is Act.DROP:
            self._forget_call()
        self._record_outputs()
        if log.has_anything and (act is not Act.KEEP or not log.step):
            # Whether the run ends with this row does not matter here: it ends anyway.
            self.close_row("backward" if self.machine.has_backward else "forward")
        if self.ops is not None:
            self.ops.close()
        if log.has_anything:
            self.models.name_additions()
            look_at_the_dead()
            alive: list[Last] = [*self.models.holders(), *self.optimizers.all()]
            for thing in alive:
                self.digest_last_state(thing)
            log.add_end("end", (_OF_LEAVES,), self._last_leaves())
            if self._has_lost_leaves:
                self._unseen("the last values of tensors with gradients that no longer existed at the end")
        log.close()

    def _digest_new_copies(self) -> None:
        """Digest new copies, so that their last state can be compared with their first."""
        for holder in self.models.new_copies():
            holder.at_first = evidence(holder.state())[1]

    def digest_last_state(self, thing: Last) -> None:
        """Digest the last state of a module or an optimizer."""
        if isinstance(thing, HeldOptimizer):
            if thing.number is not None:
                order = (_OF_OPTIMIZER, thing.number)
                self.log.add_end("optimizer", order, list(thing.tree()))
                self.log.add_end("end", order, self.optimizers.without_module(thing))
            return
        state = thing.state()
        # A copy that never changes shows nothing new; one that came and went between two looks is missed.
        is_copy = thing.stage == COPIED
        if not is_copy or (thing.at_first is not None and _settled(thing.at_first) != _settled(evidence(state)[1])):
            self.log.add_end("end", (_OF_HOLDER, thing.order), state)


def _is_child() -> bool:
    """Whether multiprocessing, or a library that works like it, started this process."""
    return multiprocessing.parent_process() is not None or multiprocessing.current_process().name != "MainProcess"


def _serves_jobs() -> bool:
    """Whether this thread takes jobs from a library's queue, so that calls in it come in any order."""
    thread: object = threading.current_thread()
    worker: object = multiprocessing.current_process() if thread is threading.main_thread() else thread
    target = getattr(worker, "_target", None)
    code = getattr(target, "__code__", None)
    is_of_library = code is not None and not is_user_file(code.co_filename)
    return is_of_library and not str(target.__module__).startswith("torch.")


def _is_computed(leaf: object) -> bool:
    """Whether a leaf was computed by a model, so that a backward goes through it."""
    return torch.is_tensor(leaf) and leaf.grad_fn is not None


def _listed(tensors: object) -> list[object]:
    return list(tensors) if isinstance(tensors, list | tuple) else [tensors]


def _is_zero(rate: object) -> bool:
    is_on_device = torch.is_tensor(rate) and rate.device.type != "cpu"
    return not is_on_device and bool(rate == 0)  # never wait for a device


def _settled(part: Any) -> list[int]:
    return part.result() if isinstance(part, Pending) else list(part)
