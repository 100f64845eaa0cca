"""What a run looks at more closely than the rest: operations compared with another run's, kept whole, or replaced."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from samebits.agent.log import Log
from samebits.agent.ops.call import Call, tensors_in
from samebits.agent.ops.evidence import evidence_of
from samebits.agent.ops.memory import Memory, lies_in_shared_memory
from samebits.agent.ops.operands import Operands, keep_operands, read_kept_tensors
from samebits.bits.digest import digests, is_evidence, unobserved
from samebits.rng.digests import default_generator
from samebits.runfolder.notes import OpDiverged
from samebits.runfolder.ops import OPERANDS, OpKind, OpRow, Ops, place_in
from samebits.runfolder.spec import OpWindow
from samebits.runfolder.steps import Recording, file_name
from samebits.runfolder.tensors import bytes_of

# How often a custom operation is called again.
CALLS = 20

Place = tuple[int, int]


@dataclass(frozen=True)
class Taken:
    """A call before it is made.

    Attributes:
        operands: what it is called with.
        producers: who wrote that last.
        before: evidence of what it reads and does not write.
        again: makes the call once more, where that is impossible outside of the program.
        drawn_on: the device of the generator that it draws from; empty if it draws from none.
    """

    operands: Operands
    producers: dict[str, object]
    before: dict[str, int]
    again: Callable[[], object] | None
    drawn_on: str = ""


class Follower:
    """Reads along in another run's operations, one by one.

    Args:
        folder: the other run's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._rank = -1
        self._rows: Iterator[OpRow] = iter(())
        self._followed = 0
        self._same: set[tuple[int, int]] = set()

    def agrees(self, row: OpRow, rank: int) -> bool:
        """Whether the other run's next operation is this one, with the same evidence."""
        if rank != self._rank:
            self._turn_to(rank)
        self._followed += 1
        other = next(self._rows, None)
        if other is None or other.evidence != row.evidence or (other.step, other.index) != (row.step, row.index):
            return False
        return self._is_same(other.kind, row.kind)

    def _turn_to(self, rank: int) -> None:
        # The rank may become known only after some operations; by then all ranks have done the same ones.
        self._rank = rank
        self._rows = Ops(Recording(self.folder / file_name(rank, 0))).rows()
        for _ in range(self._followed):
            next(self._rows, None)

    def _is_same(self, a: OpKind, b: OpKind) -> bool:
        pair = (id(a), id(b))
        if pair in self._same:
            return True
        if a != b:
            return False
        self._same.add(pair)
        return True


class OpCapture:
    """Follows another run, keeps operands and puts grafts in, as the OpWindow says.

    Args:
        log: of this process.
        spec: what is to be done where.
    """

    def __init__(self, log: Log, spec: OpWindow) -> None:
        self._log = log
        self._keep = frozenset(spec.keep)
        self._follower = Follower(Path(spec.against)) if spec.against else None
        self._grafts = {place_in(path): path for path in map(Path, spec.grafts)}

    @property
    def follows(self) -> bool:
        """Whether another run is read along, and has not diverged yet."""
        return self._follower is not None

    def keeps(self, place: Place) -> bool:
        """Whether the operands of this operation were asked for."""
        return place in self._keep

    @property
    def is_idle(self) -> bool:
        """Nothing is to be done anywhere any more."""
        return self._follower is None and not self._keep and not self._grafts

    def begin(
        self,
        place: Place,
        call: Call,
        func: torch._ops.OpOverload,
        args: Any,
        kwargs: Any,
        generator: Any,
        memory: Memory,
    ) -> Taken | None:
        """Before the call, and after grafts: take it apart, if it may have to be kept."""
        # On an accelerator a copy of whatever any operation writes to takes more memory than there may be, and looking
        # at once takes waiting for it: there the place alone is noted, and one more run keeps its operands.
        if place not in self._keep and (self._follower is None or not all(tensor.is_cpu for tensor in call.tensors)):
            return None
        schema = call.schema
        state = generator.get_state() if generator is not None else None
        again = None
        if place in self._keep and not schema.is_builtin and not schema.writes:
            again = partial(func, *args, **kwargs)
        operands = Operands(schema.arguments, args, kwargs, schema.writes, state)
        drawn_on = "" if generator is None else str(generator.device)
        return Taken(operands, _producers(call, memory), _evidence_of_read(call), again, drawn_on)

    def follow(self, row: OpRow) -> bool:
        """Compare with the other run, in the order of operations; True where both diverge."""
        if self._follower is None or self._follower.agrees(row, self._log.rank):
            return False
        self._follower = None
        self._log.journal.note(OpDiverged(self._log.rank, row.step, row.index))
        return True

    def end(self, call: Call, row: OpRow, made: list[torch.Tensor]) -> None:
        """After the call: compare with the other run; keep the operands where both diverge or where asked for."""
        parts = self.follow(row)
        if call.taken is not None and (parts or (row.step, row.index) in self._keep):
            self._write(call.taken, call, row, made)

    def graft_inputs(self, place: Place, call: Call, generator: Any) -> None:
        """Where this operation is grafted: what came in from outside becomes what the other run had."""
        path = self._path(place)
        if path is None:
            return
        kept = read_kept_tensors(path)
        given = {id(tensor): (name, tensor) for name, tensor in call.named}.values()
        with unobserved():
            for number, (name, tensor) in enumerate(given):
                other = kept.get(f"in.{number}")
                if other is not None and name.partition("[")[0] not in call.schema.write_only:
                    _become(tensor, other)
            if generator is not None and "state" in kept:
                generator.set_state(kept["state"])
        # Numbers come from Python and stay; what they lead to is replaced.
        call.floats = [0.0] * len(call.floats)

    def graft_results(self, place: Place, made: list[torch.Tensor]) -> None:
        """The results become the other run's."""
        path = self._path(place)
        if path is None:
            return
        kept = read_kept_tensors(path)
        with unobserved():
            for number, tensor in enumerate(made):
                if f"out.{number}" in kept:
                    _become(tensor, kept[f"out.{number}"])

    def _path(self, place: Place) -> Path | None:
        return self._grafts.get((self._log.rank, *place)) if self._grafts else None

    def _write(self, taken: Taken, call: Call, row: OpRow, made: list[torch.Tensor]) -> None:
        schema, labels = call.schema, taken.operands.labels
        after = _evidence_of_read(call)
        content = {
            "kind": json.loads(row.kind.as_json()),
            "op": schema.name,
            "is_builtin": schema.is_builtin,
            "is_random": schema.is_random,
            "drawn_on": taken.drawn_on,
            "write_only": sorted(schema.write_only),
            "written": [i for i, label in enumerate(labels) if label.partition("[")[0] in schema.writes],
            "producers": taken.producers,
            "changed_meanwhile": [name for name, found in taken.before.items() if after.get(name) != found],
            "shared": [name for name, tensor in call.named if lies_in_shared_memory(tensor)],
            "called_again": None if taken.again is None else _called_again(taken.again, call.tensors),
        }
        with unobserved():
            place = (row.step, row.index)
            keep_operands(self._log.folder / OPERANDS, self._log.rank, place, content, taken.operands, made)


def _become(tensor: torch.Tensor, other: Any) -> None:
    if is_evidence(tensor) and 0 not in tensor.stride() and bytes_of(tensor) != bytes_of(other):
        tensor.copy_(other)


def _evidence_of_read(call: Call) -> dict[str, int]:
    """Of each input on the CPU that the call does not write to: a change meanwhile comes from elsewhere.

    Custom operations may write where their schema does not say, and collectives write when they please.
    """
    schema = call.schema
    if not schema.is_builtin or schema.is_collective or schema.is_view or schema.is_uninitialized:
        return {}
    inputs = [(name, tensor) for name, tensor in call.named if tensor.is_cpu and tensor.layout is torch.strided]
    written = {_memory_of(tensor) for name, tensor in inputs if name.partition("[")[0] in schema.writes}
    return {
        name: evidence_of(tensor)
        for name, tensor in inputs
        if _memory_of(tensor) not in written and is_evidence(tensor)
    }


def _memory_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _producers(call: Call, memory: Memory) -> dict[str, object]:
    """For each input, who wrote its memory last, as plain data."""
    producers = {name: memory.producer(tensor) for name, tensor in call.named if tensor.layout is torch.strided}
    return {
        name: _producer_entry(who, is_uninitialized)
        for name, (who, is_uninitialized) in producers.items()
        if who is not None
    }


def _producer_entry(producer: Any, is_uninitialized: bool) -> dict[str, Any]:
    step, index, op, place = producer
    path, line, function = place.line
    where = {"module": place.module, "path": path, "line": line, "function": function}
    return {"step": step, "index": index, "op": op, **where, "uninitialized": is_uninitialized}


def _called_again(again: Callable[[], object], tensors: list[torch.Tensor]) -> dict[str, int]:
    """How many different results an operation gives that only this program knows; its draws are taken back."""
    devices = dict.fromkeys([torch.device("cpu"), *(tensor.device for tensor in tensors)])
    generators = [generator for device in devices if (generator := default_generator(device)) is not None]
    states = [(generator, generator.get_state()) for generator in generators]
    found = set()
    for _ in range(CALLS):
        for generator, state in states:
            generator.set_state(state)
        found.add(tuple(digests(tensors_in(again()))))
    return {"calls": CALLS, "results": len(found)}
