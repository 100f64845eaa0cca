"""Operations on disk, beside the steps of the same recording.

    op_kinds(id, content)                               what operations of one kind have in common, as JSON
    ops(chunk, step, first, count, root, packed)        up to 512 operations of one step

`packed` holds the kinds of the operations (4 bytes each), then their evidence (8 bytes each); how many pieces of
evidence an operation has, its kind says. `root` digests the chunk and the root before it, as steps do.
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

from samebits.base.errors import RecordingError
from samebits.base.records import from_data
from samebits.base.sites import Site
from samebits.runfolder.reading import parsed, read_json
from samebits.runfolder.steps import Recording, Writer

CHUNK = 512
Pass = Literal["forward", "backward", "optimizer", "none"]
# The namespaces of torch's own operations.
BUILTIN = ("aten", "prims", "mkldnn", "mkldnn_prepacked", "quantized", "onednn")
# The folder in a run's folder where the operands of single operations are kept.
OPERANDS = "operands"


@dataclass(frozen=True)
class OpKind:
    """What operations of one kind have in common.

    Attributes:
        op: `aten::add_.Tensor`.
        pass_: `forward`, `backward`, `optimizer`, or `none` (data, metrics, what belongs to no pass).
        module: dotted path of the module it runs in; a backward operation has its forward operation's.
        path, line, function: the user's line nearest to it; backward as above.
        backward_of: the forward operation that this one belongs to, without overload; empty in other passes.
        arguments: what it was called with: `(float32[2, 3], 1, alpha=1)`.
        ins, outs: names of the evidence.
        is_view: it makes no bits, only another look at those of its input.
        source: the line as it was when it was recorded.
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
        """What two runs are aligned by, together with how many of the same came before in the step."""
        return self.pass_, self.module, self.op

    @cached_property
    def digest(self) -> int:
        """The digest of all fields above."""
        return int.from_bytes(hashlib.blake2b(self.as_json().encode(), digest_size=8).digest(), "little")

    def as_json(self) -> str:
        content = asdict(self)
        del content["source"]  # a line that was edited is still that line
        return json.dumps(content)

    def as_row(self) -> str:
        """What is recorded: with the line as it is now."""
        return json.dumps({**asdict(self), "source": Site(self.path, self.line).source if self.path else ""})


@dataclass(frozen=True)
class Producer:
    """The operation that wrote an input last.

    Attributes:
        uninitialized: it made the memory, and wrote nothing to it.
        other_stream: it was queued on another stream of the device than what reads the input.
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
    """How one operand lay in memory."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    device: str
    alignment: int | None
    conj: bool
    neg: bool


@dataclass(frozen=True)
class CalledAgain:
    """How many different results a number of calls of a custom operation gave inside the program."""

    calls: int
    results: int


@dataclass(frozen=True)
class KeptCall:
    """A call that was kept with its operands, as `operands/*.json` holds it.

    Attributes:
        is_builtin: it is torch's.
        arguments, keywords: each a dictionary of one entry, kind → value, as `agent.ops.operands` encodes them.
        labels: of the tensors among them.
        write_only, written: arguments that are written and not read, and numbers of the tensors that are written to.
        producers: argument → who wrote there last.
        views, digests: of operands and results, by name.
        settings, environment, torch: with what it ran.
        changed_meanwhile, shared: arguments that others may have written to.
        called_again: what calling it again in the program showed; None where that can be done outside.
        drawn_on: the device of the generator that it draws from.
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
    """A call that was kept in a run's folder; RecordingError where it is something else."""
    try:
        return from_data(KeptCall, read_json(path, folder))
    except RecordingError:
        raise
    except (OSError, ValueError) as error:
        raise RecordingError(f"{path} cannot be read: {error}", "was it edited?") from error


@dataclass(frozen=True)
class OpRow:
    """One operation.

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


class OpSheet:
    """Operations on their way to disk."""

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
        """The id of a kind that is met for the first time."""
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
        """Append one operation; True when a chunk is full and may be written."""
        self._ids.append(kind)
        self._evidence.extend(evidence)
        if len(self._ids) < CHUNK:
            return False
        self._close(self.step, self.index)
        return True

    def begin_at(self, step: int) -> None:
        """The next operation belongs to this step."""
        self._close(step, 0)

    def _close(self, step: int, first: int) -> None:
        if self._ids:
            self._chunks.append((self.step, self.first, self._ids, self._evidence))
        self._begin(step, first)

    def write(self, writer: Writer) -> None:
        """Everything that waits goes to disk."""
        self._close(self.step, self.index)
        for number in range(self._written_kinds, len(self.kinds)):
            writer.insert("INSERT INTO op_kinds VALUES(?, ?)", number, self.kinds[number].as_row())
        self._written_kinds = len(self.kinds)
        chunks, self._chunks = self._chunks, []
        for step, first, ids, evidence in chunks:
            whole = array("Q", [self.kinds[kind].digest for kind in ids]).tobytes() + evidence.tobytes()
            self._root = hashlib.blake2b(self._root + step.to_bytes(8, "little") + whole, digest_size=8).digest()
            row = (step, first, len(ids), self._root, ids.tobytes() + evidence.tobytes())
            writer.insert("INSERT INTO ops VALUES(NULL, ?, ?, ?, ?, ?)", *row)


class Ops:
    """The operations of one recording, read without torch."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._kinds: dict[int, OpKind] = {}
        # Numbers of the chunks; they are in the order of time and have no gaps.
        self.chunks = int(recording.one("SELECT COUNT(*) FROM ops")[0])

    def root(self, chunk: int) -> bytes:
        """The chained digest of everything up to and including a chunk."""
        return bytes(self._recording.one("SELECT CAST(root AS BLOB) FROM ops WHERE chunk=?", chunk + 1)[0] or b"")

    def rows(self, chunk: int = 0) -> Iterator[OpRow]:
        """The operations from the beginning of a chunk on, in the order of time."""
        for number in range(chunk, self.chunks):
            with self._recording.damage_described():
                rows = list(self._unpacked(number))
            yield from rows

    def _unpacked(self, chunk: int) -> Iterator[OpRow]:
        query = "SELECT step, first, count, CAST(packed AS BLOB) FROM ops WHERE chunk=?"
        *numbers, packed = self._recording.one(query, chunk + 1)
        step, first, count = map(int, numbers)
        ids, evidence = array("I", packed[: 4 * count]), array("Q", packed[4 * count :])
        at = 0
        for position, number in enumerate(ids):
            kind = self._kind(number)
            end = at + len(kind.ins) + len(kind.outs)
            yield OpRow(step, first + position, kind, tuple(evidence[at:end]))
            at = end

    def _kind(self, number: int) -> OpKind:
        if number not in self._kinds:
            (text,) = self._recording.one("SELECT content FROM op_kinds WHERE id=?", number)
            self._kinds[number] = from_data(OpKind, parsed(text))
        return self._kinds[number]


def operands_name(rank: int, step: int, index: int) -> str:
    """The name, without suffix, of the files that keep the operands of one operation."""
    return f"rank{rank}.step{step}.op{index}"


def place_in(path: Path) -> tuple[int, int, int]:
    """Rank, step and index, from such a name."""
    found = re.fullmatch(r"rank(\d+)\.step(\d+)\.op(\d+)\.\w+", path.name)
    if found is None:
        raise ValueError(f"{path} is not a file with operands")
    rank, step, index = found.groups()
    return int(rank), int(step), int(index)
