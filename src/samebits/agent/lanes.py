"""One training as it goes by: what its rows hold so far, and where they are written.

Each is of the main thread, of another thread, or one of several trainings of a worker. A worker takes whichever job
comes next, so what one process or thread does altogether depends on arrival, and only one training can be compared with
one of another run. A new one begins with an optimizer that is made after another stepped.

The last state of what a program made is seen of modules and optimizers when they die, and of what is left at the end.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from samebits.agent.events import Event
from samebits.agent.identity import Weak
from samebits.agent.log import Log, Part, evidence, tensors_in
from samebits.agent.models import COPIED, LOADED, HeldOptimizer, Holder, Models, Optimizers, holds_any
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

# Last looks go to the end row in the order of their kinds.
_OF_HOLDER, _OF_OPTIMIZER, _OF_LEAVES = range(3)
# An optimizer's state is the largest stream and the last to tell anything new: it follows from gradients, and whatever
# is in it reaches the parameters. It is digested in the first steps, in every tenth, and when the process ends.
_STATE_FIRST_STEPS, _STATE_EVERY = 3, 10
# What is looked at when it dies, or at the end.
Last = Holder | HeldOptimizer


class Lane:
    """What is known of one training: number `number`, from 1, of the main thread of its recorder, or of its own."""

    def __init__(
        self,
        log: Log,
        number: int,
        is_own_thread: bool,
        died: Callable[[Lane, Last], None],  # it needs a last look
        row_ended: Callable[[Lane, str], None],  # cut at a step of this name
        unseen: Callable[[str], None],
    ) -> None:
        self.log, self.number, self.is_own_thread = log, number, is_own_thread
        self._row_ended, self._unseen = row_ended, unseen
        self.models = Models(lambda holder: died(self, holder))
        self.optimizers = Optimizers(self.models, lambda held: died(self, held))
        self.ops: OpRecorder | None = None
        serves_jobs = _serves_jobs()
        self.machine = StepMachine(lambda: serves_jobs and self.is_split)
        # The module by whose call the row was opened.
        self._opened_by: Weak | None = None
        # The last batch of a loader could be looked into.
        self._has_loader = False
        # Tensors that are trained by hand, as they were when gradients were last computed for them.
        self._has_leaves: bool | None = None
        self._leaves: list[tuple[str, Weak]] = []
        self._has_lost_leaves = False
        self._outputs: list[tuple[Weak, list[str], Part]] = []
        self.hears: dict[Event, Callable[..., object]] = {
            Event.CALLED: self._called,
            Event.RETURNED: self._returned,
            Event.COPIED: lambda module: self.models.notice(module, COPIED),
            Event.LOADED: lambda module: self.models.notice(module, LOADED),
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
        """Whether every training here gets a recording of its own, and none may end the process."""
        return self.is_own_thread or (_is_child() and current_rank() is None)

    @property
    def is_over(self) -> bool:
        """Whether an optimizer that is made now begins another training."""
        return self.is_split and (self.machine.has_stepped or self.log.broken)

    # ---- modules

    def _called(self, module: torch.nn.Module, args: object) -> None:
        machine, was_open = self.machine, self.machine.is_open
        act = machine(Event.CALLED, machine.is_untrained_call and self._begins_another(module, args))
        if act is Act.CUT:
            self._row_ended(self, "forward")
        elif act is Act.DROP:
            self._forget_call()
        if act is not Act.KEEP or not was_open:
            self._opened_by = Weak(module)
        if self.ops is not None:
            # A forked child that trains itself begins here, and not when it is forked: it may be no such child.
            self.ops.begin_step(self.log.step)
        self.log.add("init", self.models.meet(module))
        self._look_at_copies()
        if not self._has_loader:
            self._note_given(args)

    def _note_given(self, args: object) -> None:
        """Data, as a module is given them: not what another one has made of them."""
        given = [(path, leaf) for path, leaf in leaves(args) if not _is_computed(leaf)]
        if given:
            number = self.log.count("batch")
            self.log.add_trees("batch", [(f"{number}{path}", leaf) for path, leaf in given])

    def _begins_another(self, module: torch.nn.Module, args: object) -> bool:
        """A loss is called on what a model gave, whatever it holds: only the next call of a model is another step."""
        if self._opened_by is not None and self._opened_by() is module:
            return True
        goes_on = any(_is_computed(leaf) for _, leaf in leaves(args))
        return holds_any(module) and not goes_on

    def _returned(self, module: torch.nn.Module, result: object) -> None:
        """Digest what an outermost module returned; a backward may take it back."""
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
        # A module that is called again before any backward was not called for one.
        self._keep_outputs(module)
        self._outputs.append((Weak(module), names, part))

    def _keep_outputs(self, module: object = None) -> None:
        """No backward was called on what a module returned (or any module): it is a result."""
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
        # Outputs were for a backward: the loss and the gradients say what they had to say.
        self._outputs = []
        if self.ops is not None:
            self.ops.places.backward_called(sys._getframe())
        losses = [unwrapped(tensor) for tensor in _listed(tensors) if torch.is_tensor(tensor)]
        number = log.count("loss")
        named = [(f"{number}[{i}]" if len(losses) > 1 else f"{number}", t) for i, t in enumerate(losses)]
        log.add("loss", named)
        log.add_numbers(named)
        if fills_leaves and not machine.is_cut_at_steps and self._has_leaves is not False:
            found = [leaf for leaf in graph_leaves(losses) if self.models.name_of(leaf) is None]
            self._has_leaves = bool(found)
            self._note_leaves([(f"leaf{i}", leaf) for i, leaf in enumerate(found)])

    def _backward_ends(self, found: Sequence[torch.Tensor | None] | None = None, inputs: object = None) -> None:
        act = self.machine(Event.BACKWARD_ENDS)
        if found is not None:
            self._asked_for(found, inputs, act)
        elif act is Act.CUT:
            self._cut_at_backward()
        elif not self.machine.has_stepped:
            # Until an optimizer is seen to step: how its parameters stand after a backward.
            for held in self.optimizers.all():
                held.note_versions()

    def _cut_at_backward(self) -> None:
        named = self.models.parameters()
        for held in self.optimizers.all() if self.machine.is_cut_at_backward else ():
            self.log.add("init", self.optimizers.named(held)[1])
            named += self.optimizers.own(held)
        named += self._last_leaves()
        self.log.add("grad", gradients(named))
        self.log.add("param", named)
        self._row_ended(self, "backward")

    def _asked_for(self, found: Sequence[torch.Tensor | None], inputs: object, act: Act) -> None:
        """Gradients that `torch.autograd.grad` gave."""
        name_of = self.optimizers.name_of
        given = [unwrapped(one) for one in _listed(inputs) if torch.is_tensor(one)]
        named = [(name_of(one) or f"leaf{i}", one) for i, one in enumerate(given)]
        number = self.log.count("autograd.grad")
        prefix = f"{number}." if number else ""
        pairs = zip(named, found, strict=False)
        self.log.add("grad", [(f"{prefix}{name}", unwrapped(g)) for (name, _), g in pairs if g is not None])
        self._note_leaves([(name, one) for name, one in named if one.is_leaf and name_of(one) is None])
        if act is Act.CUT:
            self.log.add("param", named)
            self._row_ended(self, "backward")

    def _derived(self, result: tuple[object, object], primals: object) -> None:
        """Forward-mode derivatives: the value is the loss, the tangents are the gradients."""
        act, number = self.machine(Event.DERIVED), self.log.count("jvp")
        self.log.add_trees("loss", [(f"jvp{number}.value", result[0])])
        self.log.add_trees("grad", [(f"jvp{number}", result[1])])
        if act is Act.CUT:
            self.log.add_trees("param", [(f"jvp{number}.primal", primals)])
            self._row_ended(self, "backward")

    def _note_leaves(self, named: list[Named]) -> None:
        """These are trained by hand from now on, under their names."""
        known = dict(self._leaves)
        for name, leaf in named:
            before = known.get(name)
            self._has_lost_leaves |= before is not None and before() is not leaf
            known[name] = Weak(leaf)
        self._leaves = list(known.items())

    def _last_leaves(self) -> list[Named]:
        """The last leaves that are still alive."""
        alive = [(name, known()) for name, known in self._leaves]
        self._has_lost_leaves |= any(leaf is None for _, leaf in alive)
        return [(name, leaf) for name, leaf in alive if leaf is not None]

    # ---- optimizers

    def _optimizer_made(self, optimizer: torch.optim.Optimizer) -> None:
        self.machine(Event.OPTIMIZER_MADE)
        self.optimizers.meet(optimizer)

    def _step_begins(self, optimizer: torch.optim.Optimizer, has_closure: bool) -> None:
        if self.ops is not None:
            self.ops.places.is_stepping = True
        act = self.machine(Event.STEP_BEGINS, has_closure or not self._only_fills_in(optimizer))
        # A closure calls the model, which names the parameters, and backward: what is there now is of before.
        if act is Act.KEEP and not has_closure:
            self._note_before(optimizer)

    def _only_fills_in(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether a step only makes state to load into, as `torch.distributed.checkpoint` does: with rates of zero."""
        groups = optimizer.param_groups
        if self.log.has("loss") or self.log.has("grad") or any(not _is_zero(one.get("lr", 1)) for one in groups):
            return False
        found = (tensor.grad for group in groups for tensor in group["params"])
        return all(gradient is None or not bool(gradient.any()) for gradient in found)

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
            # A closure calls backward inside the step: what it left behind is the gradient of this step.
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
        """A CUDA graph ran, and the steps of these optimizers with it."""
        self._unseen(UNSEEN)
        for optimizer in optimizers:
            self.log.add("param", self._note_before(optimizer))
        if optimizers:
            self.machine(Event.REPLAYED)
            self._row_ended(self, "optimizer")

    # ---- data, and what is saved

    def _fetched(self, iterator: object, batch: object) -> None:
        closed = self.log.add_trees("batch", [(f"{self.log.count('batch')}", batch)])
        # What a model is given stands for what cannot be looked into.
        self._has_loader = not closed
        for kind in closed:
            self._unseen(f"what is in a {kind} of a batch")

    def _saves(self, thing: object) -> None:
        """Tensors are the state of a training; what else is saved may be a time, and only says more."""
        log = self.log
        number = log.count("artifact")
        found = list(saved(thing, f"{number}"))
        log.add("artifact", [(path, unwrapped(leaf)) for path, leaf in found if torch.is_tensor(leaf)])
        others = [(path, leaf) for path, leaf in found if not torch.is_tensor(leaf)]
        log.add("saved", [(path, tensor) for path, leaf in others if (tensor := as_tensor(leaf)) is not None])
        plain = [(path, digest) for path, leaf in others if (digest := plain_digest(leaf)) is not None]
        log.add_digests("saved", [path for path, _ in plain], [digest for _, digest in plain])
        # Of modules, what was written to since the last step digested it: it may be what is saved.
        held = self.optimizers.all()
        versions = {id(p): version for one in held for p, version in zip(one.tensors, one.versions, strict=False)}
        states = [one for one in self.models.holders() if one.stage != COPIED]
        log.add(
            "artifact", [(f"{number}.state.{name}", t) for one in states for name, t in one.changed_at_save(versions)]
        )
        self._look_at_copies()

    # ---- the end of a row, and of everything

    def close_row(self, cut: str) -> bool:
        """Write a row; True when the run ends with it."""
        self._keep_outputs()
        watched = self.log.spec.resume is not None
        self.log.add("buffer", self.optimizers.untrained() if watched else self.models.changed_buffers())
        self._look_at_copies()
        if self.ops is not None:
            self.ops.end_step()
        is_last = self.log.end_step(cut)
        if self.is_split and not self.is_own_thread:
            # A pool ends its workers with a signal when it is left.
            self.log.commit()
        return is_last

    def _forget_call(self) -> None:
        self._unseen(f"what {self.log.lane_id.name} computed without training: timing decides which job it gets")
        self._outputs = []
        self.log.forget()

    def finish(self, look_at_the_dead: Callable[[], None]) -> None:
        """Write what came after the last step, and the last state of whatever is left."""
        log, act = self.log, self.machine(Event.ENDS)
        if act is Act.DROP:
            self._forget_call()
        self._keep_outputs()
        if log.has_anything and (act is not Act.KEEP or not log.step):
            # Stopping is over with the end.
            self.close_row("backward" if self.machine.has_backward else "forward")
        if self.ops is not None:
            self.ops.close()
        if log.has_anything:
            self.models.look_again()
            look_at_the_dead()
            left: list[Last] = [*self.models.holders(), *self.optimizers.all()]
            for thing in left:
                self.look_at_last(thing)
            log.add_end("end", (_OF_LEAVES,), self._last_leaves())
            if self._has_lost_leaves:
                self._unseen("the last values of tensors that gradients were computed for, which were gone at the end")
        log.close()

    def _look_at_copies(self) -> None:
        """Copies are compared with what they were when they were new."""
        for holder in self.models.new_copies():
            holder.at_first = evidence(holder.state())[1]

    def look_at_last(self, thing: Last) -> None:
        """Digest the last state of a module or an optimizer."""
        if isinstance(thing, HeldOptimizer):
            if thing.number is not None:
                order = (_OF_OPTIMIZER, thing.number)
                self.log.add_end("optimizer", order, list(thing.tree()))
                self.log.add_end("end", order, self.optimizers.own(thing))
            return
        state = thing.state()
        # A copy that never changes says nothing; one that came and went between two looks is missed.
        is_copy = thing.stage == COPIED
        if not is_copy or (thing.at_first is not None and _settled(thing.at_first) != _settled(evidence(state)[1])):
            self.log.add_end("end", (_OF_HOLDER, thing.order), state)


def _is_child() -> bool:
    """Whether multiprocessing, or a library that does as it does, has made this process."""
    return multiprocessing.parent_process() is not None or multiprocessing.current_process().name != "MainProcess"


def _serves_jobs() -> bool:
    """Whether this thread takes jobs from a queue of a library, so that what is called there comes in any order."""
    thread: object = threading.current_thread()
    worker: object = multiprocessing.current_process() if thread is threading.main_thread() else thread
    target = getattr(worker, "_target", None)
    code = getattr(target, "__code__", None)
    is_librarys = code is not None and not is_user_file(code.co_filename)
    return is_librarys and not str(target.__module__).startswith("torch.")


def _is_computed(leaf: object) -> bool:
    """Whether a model has made it in this step: a backward goes through it."""
    return torch.is_tensor(leaf) and leaf.grad_fn is not None


def _listed(tensors: object) -> list[object]:
    return list(tensors) if isinstance(tensors, list | tuple) else [tensors]


def _is_zero(rate: object) -> bool:
    is_on_device = torch.is_tensor(rate) and rate.device.type != "cpu"
    return not is_on_device and bool(rate == 0)  # do not wait for a device


def _settled(part: Any) -> list[int]:
    return part.result() if isinstance(part, Pending) else list(part)
