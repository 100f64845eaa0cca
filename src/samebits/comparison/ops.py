"""Finds the first operation at which two recordings diverge, and what differs there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Literal

from samebits.base.records import published
from samebits.comparison.align import align, first_unequal
from samebits.runfolder.ops import OpRow, Ops
from samebits.runfolder.steps import Recording

# How many operations to search for where two runs meet again, and how many equal ones in a row count as meeting.
LOOK_AHEAD = 2000
TOGETHER = 3

OpFinding = Literal["op", "input", "argument", "generator", "control flow"]


@dataclass(frozen=True)
class OpDivergence:
    """The earliest operation that is not the same in two runs of one rank.

    Attributes:
        finding: `op` – inputs are equal and results differ; `input` – an input differs, and no recorded operation made
            the difference; `argument` – a number or a shape that Python passed differs; `generator` – a random
            operation would draw from another state; `control flow` – a different operation was called.
        step, index: the step, and the number of the operation in it, as the first run counts.
        rank: the rank of both recordings.
        a, b: the operation in each run; None where a run has none left.
        names: which inputs or results differ.
        reordered: with `input`, the lists of tensors that differ only in order; empty where anything else differs, too.
        extra: with `control flow`, the operations that only one run called, in order.
        extra_in: which run called them: `first`, `second`, or `both` where some were replaced by others.
    """

    finding: OpFinding
    step: int
    index: int
    rank: int = 0
    a: OpRow | None = None
    b: OpRow | None = None
    names: tuple[str, ...] = ()
    extra: tuple[OpRow, ...] = ()
    extra_in: Literal["first", "second", "both", ""] = ""
    reordered: tuple[str, ...] = ()

    @property
    @published()
    def row(self) -> OpRow:
        """The operation that the answer names."""
        row = self.extra[0] if self.extra else self.b or self.a
        assert row is not None
        return row


def op_divergences(a: Sequence[Recording], b: Sequence[Recording]) -> list[OpDivergence]:
    """Return the first divergent operation of every process that ran in both runs and diverges there, by rank."""
    places = [first_op_divergence(*pair.both) for pair in align(a, b) if pair.both is not None]
    return [place for place in places if place is not None]


def is_collective(op: str) -> bool:
    """Whether an operation exchanges values between ranks."""
    return op.startswith(("c10d::", "_c10d_functional"))


def first_op_divergence(a: Recording, b: Recording) -> OpDivergence | None:
    """Return the first operation at which two recordings diverge; None where both hold the same operations."""
    left, right = Ops(a), Ops(b)
    chunk = first_unequal(min(left.chunks, right.chunks), lambda number: left.root(number) == right.root(number))
    for position, (x, y) in enumerate(zip_longest(left.rows(chunk), right.rows(chunk))):
        if x is None or y is None or (x.kind is not y.kind and x.kind != y.kind) or x.evidence != y.evidence:
            return _classified(x, y, a.rank, (left, right), (chunk, position))
    return None


def _classified(
    x: OpRow | None, y: OpRow | None, rank: int, both: tuple[Ops, Ops], at: tuple[int, int]
) -> OpDivergence:
    row = x or y
    assert row is not None
    step, index = row.step, row.index
    if x is None or y is None or x.kind.identity != y.kind.identity or x.step != y.step:
        extra, extra_in = _unmatched(*(list(islice(ops.rows(at[0]), at[1], at[1] + LOOK_AHEAD)) for ops in both))
        return OpDivergence("control flow", step, index, rank, x, y, (), tuple(extra), extra_in)
    if x.kind.ins == y.kind.ins and x.ins != y.ins:
        names = tuple(name for name, digest in x.ins.items() if y.ins[name] != digest)
        finding: OpFinding = "input"
        if "numbers" in names:
            finding = "argument"
        elif names == ("generator",):
            finding = "generator"
        return OpDivergence(finding, step, index, rank, x, y, names, reordered=_reordered(x, y, names))
    if x.kind.arguments != y.kind.arguments or x.kind.ins != y.kind.ins:
        return OpDivergence("argument", step, index, rank, x, y)
    if x.kind != y.kind:
        return OpDivergence("control flow", step, index, rank, x, y, (), (y,), "both")
    names = tuple(name for name, digest in x.outs.items() if y.outs.get(name) != digest)
    return OpDivergence("op", step, index, rank, x, y, names)


def _reordered(x: OpRow, y: OpRow, names: Sequence[str]) -> tuple[str, ...]:
    """Return the lists that hold the same tensors in another order; empty where anything else differs, too."""
    lists = tuple(dict.fromkeys(name.partition("[")[0] for name in names))
    if not all("[" in name for name in names):
        return ()
    return lists if all(_members(x, name) == _members(y, name) for name in lists) else ()


def _members(row: OpRow, name: str) -> list[int]:
    return sorted(digest for label, digest in row.ins.items() if label.startswith(f"{name}["))


def _unmatched(a: Sequence[OpRow], b: Sequence[OpRow]) -> tuple[list[OpRow], Literal["first", "second", "both"]]:
    """Return the operations that only one run has before both continue alike, and which run that is."""
    ids_a, ids_b = [row.kind.identity for row in a], [row.kind.identity for row in b]
    for distance in range(1, max(len(a), len(b)) + 1):
        if _continue_alike(ids_a, 0, ids_b, distance):
            return list(b[:distance]), "second"
        if _continue_alike(ids_a, distance, ids_b, 0):
            return list(a[:distance]), "first"
        if distance <= min(len(a), len(b)) and _continue_alike(ids_a, distance, ids_b, distance):
            return list(b[:distance]), "both"
    return list((b or a)[:1]), "both"


def _continue_alike(a: Sequence[object], at_a: int, b: Sequence[object], at_b: int) -> bool:
    left, right = a[at_a : at_a + TOGETHER], b[at_b : at_b + TOGETHER]
    return left == right and (bool(left) or (at_a == len(a) and at_b == len(b)))
