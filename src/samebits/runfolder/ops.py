"""Recorded operations on disk, in the file that also holds the steps.

    op_kinds(id, content)                               what operations of one kind have in common, as JSON
    ops(chunk, step, first, count, root, packed)        up to 512 operations of one step

`packed` holds the kinds of the operations (4 bytes each), then their evidence (8 bytes each); the kind of an operation
tells how many pieces of evidence it has. `root` digests the chunk and the root before it, as steps do.
"""

from __future__ import annotations

import hashlib
import json
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from samebits.base.records import from_data
from samebits.base.sites import Site
from samebits.runfolder.reading import damage_described, parse_json, read_json
from samebits.runfolder.steps import Recording, Writer

CHUNK = 512
Pass = Literal["forward", "backward", "optimizer", "none"]
# The namespaces of torch's own operations.
BUILTIN = ("aten", "prims", "mkldnn", "mkldnn_prepacked", "quantized", "onednn")
# The subfolder of a run folder that keeps the operands of single operations.
OPERANDS = "operands"


@dataclass(frozen=True)
class OpKind:
    """The facts that operations of one kind have in common: everything but their evidence.

    Attributes:
        op: name and overload, such as `aten::add_.Tensor`.
        pass_: `forward`, `backward`, `optimizer`, or `none` (data, metrics, what belongs to no pass).
        module: dotted path of the module it runs in; for a backward operation, that of its forward operation.
        path, line, function: the user's line nearest to it; for a backward operation, that of its forward operation.
        backward_of: the forward operation that this one belongs to, without overload; empty in other passes.
        arguments: what it was called with: `(float32[2, 3], 1, alpha=1)`.
        ins, outs: names of the evidence of inputs and of results.
        is_view: it computes nothing, and its result is a view of its input.
        source: the source line as it was when the operation was recorded.
    """

    op: str
    pass_: Pass = "none"
    module: str = ""
    path: str = ""
    line: int = 0
    function: str = ""
    backward_of: str = ""
    arguments: str = ""
    ins: tuple[str, ...] = ()
    outs: tuple[str, ...] = ()
    is_view: bool = False
    source: str = field(default="", compare=False)

    @property
    def identity(self) -> tuple[str, str, str]:
        """The key by which operations of two runs are aligned, with the count of earlier ones of this key in a step."""
        return self.pass_, self.module, self.op

    @cached_property
    def digest(self) -> int:
        """The digest of all fields but `source`."""
        return int.from_bytes(hashlib.blake2b(self.as_json().encode(), digest_size=8).digest(), "little")

    def as_json(self) -> str:
        content = asdict(self)
        del content["source"]  # an edited line is still the same line
        return json.dumps(content)

    def as_row(self) -> str:
        """Return the JSON to record, with the source line as it is now."""
        return json.dumps({**asdict(self), "source": Site(self.path, self.line).source if self.path else ""})


@dataclass(frozen=True)
class Producer:
    """The operation that last wrote to the memory of an input.

    Attributes:
        uninitialized: it allocated the memory, and wrote nothing to it.
        other_stream: it was queued on another stream of the device than the operation that reads the input.
    """

    step: int
    index: int
    op: str
    module: str = ""
    path: str = ""
    line: int = 0
    function: str = ""
    uninitialized: bool = False
    other_stream: bool = False


@dataclass(frozen=True)
class KeptView:
    """The layout of one kept tensor in memory."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    device: str
    alignment: int | None
    conj: bool
    neg: bool


@dataclass(frozen=True)
class CalledAgain:
    """How often a custom operation was called again inside the program, and how many different results it gave."""

    calls: int
    results: int


@dataclass(frozen=True)
class KeptCall:
    """A call that was kept with its operands, as `operands/*.json` holds it.

    Attributes:
        is_builtin: the operation is torch's own.
        arguments, keywords: each a dictionary of one entry, kind → value, as `agent.ops.operands` encodes them.
        labels: names of the arguments that the tensors among them belong to.
        write_only, written: arguments that are written and not read; numbers of the tensors that are written to.
        producers: argument → the operation that last wrote to its memory.
        views, digests: layout and digest of operands and results, by name.
        settings, environment, torch: settings, environment variables and torch version with which it ran.
        changed_meanwhile, shared: arguments that changed during the call, and those in memory that other processes see.
        called_again: what calling it again inside the program showed; None where it was not called again.
        drawn_on: device of the generator that it draws from; empty where it draws from none.
    """

    kind: OpKind
    op: str
    is_builtin: bool
    arguments: tuple[Mapping[str, object], ...]
    keywords: Mapping[str, Mapping[str, object]]
    labels: tuple[str, ...]
    write_only: tuple[str, ...]
    written: tuple[int, ...]
    producers: Mapping[str, Producer]
    views: Mapping[str, KeptView]
    digests: Mapping[str, int]
    sha256: str
    settings: Mapping[str, object]
    environment: Mapping[str, str]
    torch: str
    changed_meanwhile: tuple[str, ...]
    shared: tuple[str, ...]
    called_again: CalledAgain | None
    drawn_on: str = ""


def read_call(path: Path, folder: Path) -> KeptCall:
    """Read a call that was kept in a run's folder; RecordingError where the file holds something else."""
    with damage_described(path):
        return from_data(KeptCall, read_json(path, folder))


@dataclass(frozen=True)
class OpRow:
    """One recorded operation.

    Attributes:
        index: its number in the step, from 0.
        evidence: digests of inputs and results, in the order of `kind.ins` and `kind.outs`.
    """

    step: int
    index: int
    kind: OpKind
    evidence: tuple[int, ...]

    @property
    def ins(self) -> dict[str, int]:
        return dict(zip(self.kind.ins, self.evidence, strict=False))

    @property
    def outs(self) -> dict[str, int]:
        return dict(zip(self.kind.outs, self.evidence[len(self.kind.ins) :], strict=False))


class OpBuffer:
    """A buffer for operations that are not on disk yet."""

    def __init__(self) -> None:
        self.kinds: list[OpKind] = []
        self._written_kinds = 0
        self._root = b""
        self._chunks: list[tuple[int, int, array[int], array[int]]] = []
        self._begin(0, 0)

    def _begin(self, step: int, first: int) -> None:
        self.step, self.first = step, first
        self._ids, self._evidence = array("I"), array("Q")

    def add_kind(self, kind: OpKind) -> int:
        """Add a kind that occurs for the first time, and return its id."""
        self.kinds.append(kind)
        return len(self.kinds) - 1

    @property
    def index(self) -> int:
        """The number of the next operation of this step."""
        return self.first + len(self._ids)

    @property
    def is_empty(self) -> bool:
        return not self._ids and not self._chunks

    def add(self, kind: int, evidence: Sequence[int]) -> bool:
        """Append one operation; return True when a chunk is full and may be written."""
        self._ids.append(kind)
        self._evidence.extend(evidence)
        if len(self._ids) < CHUNK:
            return False
        self._close(self.step, self.index)
        return True

    def start_step(self, step: int) -> None:
        """Start a step: the next operation belongs to it."""
        self._close(step, 0)

    def _close(self, step: int, first: int) -> None:
        if self._ids:
            self._chunks.append((self.step, self.first, self._ids, self._evidence))
        self._begin(step, first)

    def write(self, writer: Writer) -> None:
        """Write everything in the buffer to a recording."""
        self._close(self.step, self.index)
        for number in range(self._written_kinds, len(self.kinds)):
            writer.insert("INSERT INTO op_kinds VALUES(?, ?)", number, self.kinds[number].as_row())
        self._written_kinds = len(self.kinds)
        chunks, self._chunks = self._chunks, []
        for step, first, ids, evidence in chunks:
            content = array("Q", [self.kinds[kind].digest for kind in ids]).tobytes() + evidence.tobytes()
            self._root = hashlib.blake2b(self._root + step.to_bytes(8, "little") + content, digest_size=8).digest()
            row = (step, first, len(ids), self._root, ids.tobytes() + evidence.tobytes())
            writer.insert("INSERT INTO ops VALUES(NULL, ?, ?, ?, ?, ?)", *row)


class Ops:
    """The operations of one recording, read without torch."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._kinds: dict[int, OpKind] = {}
        # How many chunks there are; they are numbered in the order of time, without gaps.
        self.chunks = int(recording.first_row("SELECT COUNT(*) FROM ops")[0])

    def root(self, chunk: int) -> bytes:
        """Return the chained digest of everything up to and including a chunk."""
        return bytes(self._recording.first_row("SELECT CAST(root AS BLOB) FROM ops WHERE chunk=?", chunk + 1)[0] or b"")

    def rows(self, chunk: int = 0) -> Iterator[OpRow]:
        """The operations from the beginning of a chunk on, in the order of time."""
        for number in range(chunk, self.chunks):
            with self._recording.damage_described():
                rows = list(self._unpacked(number))
            yield from rows

    def _unpacked(self, chunk: int) -> Iterator[OpRow]:
        query = "SELECT step, first, count, CAST(packed AS BLOB) FROM ops WHERE chunk=?"
        *numbers, packed = self._recording.first_row(query, chunk + 1)
        step, first, count = map(int, numbers)
        ids, evidence = array("I", packed[: 4 * count]), array("Q", packed[4 * count :])
        start = 0
        for position, number in enumerate(ids):
            kind = self._kind(number)
            end = start + len(kind.ins) + len(kind.outs)
            yield OpRow(step, first + position, kind, tuple(evidence[start:end]))
            start = end

    def _kind(self, number: int) -> OpKind:
        if number not in self._kinds:
            (text,) = self._recording.first_row("SELECT content FROM op_kinds WHERE id=?", number)
            self._kinds[number] = from_data(OpKind, parse_json(text))
        return self._kinds[number]


def operands_name(rank: int, step: int, index: int) -> str:
    """Return the name, without suffix, of the files that keep the operands of one operation."""
    return f"rank{rank}.step{step}.op{index}"


def operation_key(path: Path) -> tuple[int, int, int]:
    """Return rank, step and index of an operation from the name of a file with its operands."""
    match = re.fullmatch(r"rank(\d+)\.step(\d+)\.op(\d+)\.\w+", path.name)
    if match is None:
        raise ValueError(f"{path} is not a file with operands")
    rank, step, index = match.groups()
    return int(rank), int(step), int(index)
