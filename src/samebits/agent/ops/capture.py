"""Operations that are compared with another run's at once, kept whole, or given another run's values."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from samebits.agent.log import Log
from samebits.agent.ops.call import Call
from samebits.agent.ops.evidence import Producers
from samebits.agent.ops.operands import Operands, read_kept_tensors
from samebits.bits.digest import is_evidence
from samebits.bits.digest.unseen import unobserved
from samebits.runfolder.notes import OpDiverged
from samebits.runfolder.ops import OPERANDS, OpRow, Ops, operation_key
from samebits.runfolder.spec import OpWindow
from samebits.runfolder.steps import Recording, file_name
from samebits.runfolder.tensors import bytes_of

Place = tuple[int, int]


class OpCapture:
    """Follows another run, keeps operands and puts grafts in, as the OpWindow says."""

    def __init__(self, log: Log, spec: OpWindow) -> None:
        self._log = log
        self._keep = frozenset(spec.keep)
        self._grafts = {operation_key(path): path for path in map(Path, spec.grafts)}
        # The folder of the run that is read along until both diverge; its operations, and how many were compared.
        self._other = Path(spec.against) if spec.against else None
        self._rows: Iterator[OpRow] = iter(())
        self._rank, self._followed = -1, 0

    @property
    def follows(self) -> bool:
        """Whether another run is read along, and has not diverged yet."""
        return self._other is not None

    def keeps(self, place: Place) -> bool:
        """Whether the operands of this operation were asked for."""
        return place in self._keep

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to be done."""
        return self._other is None and not self._keep and not self._grafts

    def begin(self, place: Place, call: Call, producers: Producers) -> Operands | None:
        """Take a call apart, before it is made and after grafts, if it may have to be kept; else return None."""
        # On an accelerator, copying all that operations write to may take more memory than there is, and comparing at
        # once would wait for the device: there only the place is noted, and one more run keeps its operands.
        if place not in self._keep and (self._other is None or not all(tensor.is_cpu for tensor in call.tensors)):
            return None
        return Operands(call, producers, place in self._keep)

    def follow(self, row: OpRow) -> bool:
        """Compare the next operation with the other run's; True where both diverge."""
        if self._other is None:
            return False
        rank = self._log.rank
        if rank != self._rank:
            # The rank may become known only after some operations; by then all ranks have done the same ones.
            self._rank = rank
            self._rows = islice(Ops(Recording(self._other / file_name(rank, 0))).rows(), self._followed, None)
        self._followed += 1
        if next(self._rows, None) == row:
            return False
        self._other, self._rows = None, iter(())
        self._log.journal.note(OpDiverged(rank, row.step, row.index))
        return True

    def end(self, call: Call, row: OpRow, made: list[torch.Tensor]) -> None:
        """Compare a call that was made with the other run; keep the operands where both diverge or where asked for."""
        diverges = self.follow(row)
        if call.kept_operands is not None and (diverges or (row.step, row.index) in self._keep):
            call.kept_operands.keep(self._log.journal.folder / OPERANDS, self._log.rank, call, row, made)

    def graft_inputs(self, place: Place, call: Call) -> None:
        """Give the operation, where it is grafted, the inputs that the other run had."""
        kept = self._grafted(place)
        if kept is None:
            return
        inputs = {id(tensor): (name, tensor) for name, tensor in call.named}.values()
        with unobserved():
            for number, (name, tensor) in enumerate(inputs):
                replacement = kept.get(f"in.{number}")
                if replacement is not None and name.partition("[")[0] not in call.schema.write_only:
                    _overwrite(tensor, replacement)
            if call.generator is not None and "state" in kept:
                call.generator.set_state(kept["state"])
        # Numbers come from Python and stay, without counting as evidence: the results that they lead to are replaced.
        call.floats = [0.0] * len(call.floats)

    def graft_results(self, place: Place, made: list[torch.Tensor]) -> None:
        """Give the operation, where it is grafted, the results that the other run had."""
        kept = self._grafted(place)
        if kept is not None:
            with unobserved():
                for number, tensor in enumerate(made):
                    if f"out.{number}" in kept:
                        _overwrite(tensor, kept[f"out.{number}"])

    def _grafted(self, place: Place) -> dict[str, torch.Tensor] | None:
        path = self._grafts.get((self._log.rank, *place)) if self._grafts else None
        return None if path is None else read_kept_tensors(path)


def _overwrite(tensor: torch.Tensor, other: torch.Tensor) -> None:
    if is_evidence(tensor) and 0 not in tensor.stride() and bytes_of(tensor) != bytes_of(other):
        tensor.copy_(other)
