"""One training as it goes by: what its rows hold so far, and what they are cut at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from samebits.agent.identity import Weak
from samebits.agent.listening import Named
from samebits.agent.log import Log, digested, tensors_in
from samebits.bits.digest import Pending

if TYPE_CHECKING:
    import torch


class RecordedTraining:
    """The state of the recorder that belongs to one sequence of steps.

    Attributes:
        log: where its rows go.
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

    def __init__(self, log: Log) -> None:
        self.log = log
        self.has_optimizer = self.has_stepped = self.is_cut_at_backward = False
        self.has_backward = self.has_loader = self.forward_open = self.in_backward = False
        self.opened_by: Weak | None = None
        self.has_leaves: bool | None = None
        self.leaves: list[tuple[str, Weak]] = []
        self.has_lost_leaves = False
        self._outputs: list[tuple[Weak, list[str], Sequence[int] | Pending]] = []

    @property
    def is_cut_at_steps(self) -> bool:
        """Whether rows end with a step of an optimizer, and with nothing else."""
        return self.has_stepped or (self.has_optimizer and not self.is_cut_at_backward)

    def was_opened_by(self, module: object) -> bool:
        return self.opened_by is not None and self.opened_by.is_(module)

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
            if before is not None and not before.is_(leaf):
                self.has_lost_leaves = True
            known[name] = Weak(leaf)
        self.leaves = list(known.items())

    def last_leaves(self) -> list[Named]:
        """Those that still live."""
        alive = [(name, known.thing) for name, known in self.leaves]
        self.has_lost_leaves |= any(leaf is None for _, leaf in alive)
        return [(name, leaf) for name, leaf in alive if leaf is not None]
