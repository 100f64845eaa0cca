"""One training as it goes by: what its rows hold so far, what they are cut at, and where they are written.

Each is of the main thread, of another thread, or one of several trainings of a worker. A worker takes whichever job
comes next, so what one process or thread does altogether depends on arrival, and only one training can be compared with
one of another run. A new one begins with an optimizer that is made after another stepped.

The last state of what a program made is seen of modules and optimizers when they die, and of what is left at the end.
"""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from samebits.agent.identity import Weak
from samebits.agent.listening import Named
from samebits.agent.log import Log, Part, digested, tensors_in
from samebits.agent.models import COPIED, HeldOptimizer, Holder, Models, Optimizers
from samebits.base.ranks import current_rank
from samebits.base.sites import is_user_file
from samebits.bits.digest import Pending, is_evidence

if TYPE_CHECKING:
    import torch

    from samebits.agent.ops.mode import OpRecorder

# Last looks go to the end row in the order of their kinds.
_OF_HOLDER, _OF_OPTIMIZER, _OF_LEAVES = range(3)


class Lane:
    """What is known of one training.

    Attributes:
        log: where its rows go.
        number: counts the trainings of its thread from 1.
        is_own_thread: of a thread that is not the one the recorder was made for.
        serves_jobs: its thread takes jobs from a queue of a library, so that what is called there comes in any order.
        has_optimizer: one of torch's was made or stepped.
        has_stepped: one was seen to step.
        is_cut_at_backward: its optimizers are never seen to step, and parameters change all the same.
        has_backward: seen.
        has_loader: the last batch of a loader could be looked into.
        forward_open: the outermost module was called, and no step has been cut since.
        opened_by: the module by whose call the forward was opened.
        in_backward: a backward is under way; modules that are called now compute again what they computed before.
        leaves: tensors that are trained by hand, as they were when gradients were last computed for them.
        has_lost_leaves: some of these died, and their last values are unknown.
    """

    def __init__(
        self, log: Log, died: Callable[[Lane, Holder | HeldOptimizer], None], number: int, is_own_thread: bool
    ) -> None:
        def last_look(thing: Holder | HeldOptimizer) -> None:
            died(self, thing)

        self.log, self.number, self.is_own_thread = log, number, is_own_thread
        self.models = Models(last_look)
        self.optimizers = Optimizers(self.models, last_look)
        self.ops: OpRecorder | None = None
        self.serves_jobs = _serves_jobs()
        self.has_optimizer = self.has_stepped = self.is_cut_at_backward = False
        self.has_backward = self.has_loader = self.forward_open = self.in_backward = False
        self.opened_by: Weak | None = None
        self.has_leaves: bool | None = None
        self.leaves: list[tuple[str, Weak]] = []
        self.has_lost_leaves = False
        self._outputs: list[tuple[Weak, list[str], Part]] = []

    @property
    def is_split(self) -> bool:
        """Whether every training here gets a recording of its own, and none may end the process."""
        return self.is_own_thread or (is_child() and current_rank() is None)

    @property
    def is_over(self) -> bool:
        """Whether an optimizer that is made now begins another training."""
        return self.is_split and (self.has_stepped or self.log.broken)

    @property
    def only_calls(self) -> bool:
        """Whether modules were called here in whatever order jobs came, and nothing was trained."""
        return self.serves_jobs and self.is_split and not (self.has_optimizer or self.has_backward)

    @property
    def is_cut_at_steps(self) -> bool:
        """Whether rows end with a step of an optimizer, and with nothing else."""
        return self.has_stepped or (self.has_optimizer and not self.is_cut_at_backward)

    @property
    def is_untrained_call(self) -> bool:
        """Whether the row in the making holds a call, and nothing that trains was ever seen."""
        return self.forward_open and not self.has_optimizer and not self.has_backward

    # ---- what modules return

    def returned(self, module: torch.nn.Module, result: object) -> None:
        """Digest what an outermost module returned; a backward may take it back."""
        number = self.log.count("output")
        named = tensors_in(result, f"{number}")
        if not named:
            return
        for_training = module.training and any(tensor.requires_grad for _, tensor in named)
        names, part = [name for name, _ in named], digested([tensor for _, tensor in named])
        if not for_training:
            self.log.add_digests("output", names, part)
            return
        # A module that is called again before any backward was not called for one.
        self.keep_outputs(module)
        self._outputs.append((Weak(module), names, part))

    def keep_outputs(self, module: object = None) -> None:
        """No backward was called on what a module returned (or any module): it is a result."""
        waiting, self._outputs = self._outputs, []
        for output in waiting:
            if module is None or output[0].is_(module):
                self.log.add_digests("output", output[1], output[2])
            else:
                self._outputs.append(output)

    def drop_outputs(self) -> None:
        """They were for a backward: the loss and the gradients say what they had to say."""
        self._outputs = []

    # ---- what is trained by hand

    def note_leaves(self, named: list[Named]) -> None:
        """These are trained by hand from now on, under their names."""
        known = dict(self.leaves)
        for name, leaf in named:
            before = known.get(name)
            self.has_lost_leaves |= before is not None and not before.is_(leaf)
            known[name] = Weak(leaf)
        self.leaves = list(known.items())

    def last_leaves(self) -> list[Named]:
        """Those that still live."""
        alive = [(name, known.thing) for name, known in self.leaves]
        self.has_lost_leaves |= any(leaf is None for _, leaf in alive)
        return [(name, leaf) for name, leaf in alive if leaf is not None]

    # ---- last looks

    def look_at_copies(self) -> None:
        """Copies are compared with what they were when they were new."""
        for holder in self.models.new_copies():
            holder.at_first = _digests_of(holder.state())

    def look_at_all(self) -> None:
        """Digest the last state of whatever is left at the end."""
        left: list[Holder | HeldOptimizer] = [*self.models.holders(), *self.optimizers.all()]
        for thing in left:
            self.look_at_last(thing)
        self.log.add_end("end", (_OF_LEAVES,), self.last_leaves())

    def look_at_last(self, thing: Holder | HeldOptimizer) -> None:
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
        if not is_copy or (thing.at_first is not None and _settled(thing.at_first) != _settled(_digests_of(state))):
            self.log.add_end("end", (_OF_HOLDER, thing.order), state)


def is_child() -> bool:
    """Whether multiprocessing, or a library that does as it does, has made this process."""
    return multiprocessing.parent_process() is not None or multiprocessing.current_process().name != "MainProcess"


def _serves_jobs() -> bool:
    thread: object = threading.current_thread()
    worker: object = multiprocessing.current_process() if thread is threading.main_thread() else thread
    target = getattr(worker, "_target", None)
    code = getattr(target, "__code__", None)
    if code is None:
        return False
    return not is_user_file(code.co_filename) and not str(target.__module__).startswith("torch.")


def _digests_of(state: list[Named]) -> Part:
    tensors = [tensor for _, tensor in state if is_evidence(tensor)]
    return digested(tensors) if tensors else ()


def _settled(part: Any) -> list[int]:
    return part.result() if isinstance(part, Pending) else list(part)
