"""Compares the operations of one script under two versions of torch.

Versions name and decompose operations differently, so the two lists need not match. `difflib` pairs operations of the
same name, module, pass, line and step, in order; operations left between two pairs replaced each other. Pairs are
examined in order. Where the inputs are equal and the results are not, that operation differs. Where an input differs,
operations left over before it made that input, or it came from outside. A value that both programs know, only in
another place, is no difference. Both runs were recorded `by_value`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from samebits.base.records import published
from samebits.runfolder.ops import OpRow

Finding = Literal["op", "argument", "otherwise", "generator", "input"]
_NO_TENSORS = ("numbers", "generator")


@dataclass(frozen=True)
class Pairing:
    """The result of pairing two lists of operations.

    Attributes:
        pairs: how many pairs of the same operation there are.
        only_here, only_there: how many operations were left over on each side.
    """

    pairs: int
    only_here: int
    only_there: int

    @property
    def is_exact(self) -> bool:
        return not self.only_here and not self.only_there


@dataclass(frozen=True)
class OpMismatch:
    """The first operation at which the two programs differ.

    Attributes:
        finding: `op` – inputs are equal and results differ; `argument` – called with the same inputs and other
            arguments; `otherwise` – computed by other operations; `generator` – would draw from another state; `input`
            – an input differs, and no recorded operation made the difference.
        step: the number of the step.
        a, b: the operation on each side; None where there is none.
        names: which inputs or results differ.
        instead_a, instead_b: with `otherwise`, the operations that each side called.
    """

    finding: Finding
    step: int
    a: OpRow | None
    b: OpRow | None
    names: tuple[str, ...] = ()
    instead_a: tuple[OpRow, ...] = ()
    instead_b: tuple[OpRow, ...] = ()

    @property
    @published()
    def row(self) -> OpRow:
        """The operation that the answer names."""
        rows = (*self.instead_a, *self.instead_b, self.a, self.b)
        return next(row for row in rows if row is not None)


def first_mismatch(a: Sequence[OpRow], b: Sequence[OpRow]) -> tuple[OpMismatch | None, Pairing]:
    """Return the first operation at which two programs differ, None where they agree, and how far both were paired."""
    blocks = SequenceMatcher(None, [_key(row) for row in a], [_key(row) for row in b], autojunk=False).get_opcodes()
    pairs = sum(i2 - i1 for tag, i1, i2, _, _ in blocks if tag == "equal")
    aligned = Pairing(pairs, len(a) - pairs, len(b) - pairs)
    known_a, known_b = _values(a), _values(b)
    unpaired_a: list[OpRow] = []
    unpaired_b: list[OpRow] = []
    for tag, i1, i2, j1, j2 in blocks:
        if tag != "equal":
            unpaired_a += a[i1:i2]
            unpaired_b += b[j1:j2]
            continue
        for x, y in zip(a[i1:i2], b[j1:j2], strict=True):
            mismatch = _mismatch(x, y, (known_a, known_b), (unpaired_a, unpaired_b))
            if mismatch is not None:
                return mismatch, aligned
    return None, aligned


def _key(row: OpRow) -> tuple[object, ...]:
    kind = row.kind
    # Overloads are renamed more often than operations are.
    return kind.pass_, kind.module, kind.op.partition(".")[0], kind.path, kind.line, row.step


def _values(rows: Iterable[OpRow]) -> set[int]:
    """Return the value of every tensor that went into an operation or came out of one."""
    return {value for row in rows for value in (*_tensors(row.ins).values(), *row.outs.values())}


def _tensors(ins: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in ins.items() if name not in _NO_TENSORS}


def _mismatch(
    x: OpRow, y: OpRow, known: tuple[set[int], set[int]], left: tuple[list[OpRow], list[OpRow]]
) -> OpMismatch | None:
    ins_x, ins_y = _tensors(x.ins), _tensors(y.ins)
    if [*ins_x.values()] == [*ins_y.values()]:
        return _by_itself(x, y, known)
    is_named_alike = x.ins.keys() == y.ins.keys()
    names = tuple(name for name, value in ins_x.items() if not is_named_alike or y.ins[name] != value)
    unknown_a, unknown_b = {*ins_x.values()} - known[1], {*ins_y.values()} - known[0]
    if not unknown_a and not unknown_b:
        # Both programs know these values, in another order of operations: their results are compared elsewhere.
        return None
    made_a, made_b = _makers(left[0], unknown_a), _makers(left[1], unknown_b)
    if made_a or made_b:
        return OpMismatch("otherwise", x.step, x, y, names, tuple(made_a), tuple(made_b))
    return OpMismatch("input", x.step, x, y, names)


def _by_itself(x: OpRow, y: OpRow, known: tuple[set[int], set[int]]) -> OpMismatch | None:
    """Return how two operations with equal inputs differ; None where their results agree or both programs know them."""
    if list(x.outs.values()) == list(y.outs.values()):
        return None
    if {*x.outs.values()} <= known[1] and {*y.outs.values()} <= known[0]:
        return None
    if x.ins.get("generator") != y.ins.get("generator"):
        return OpMismatch("generator", x.step, x, y, ("generator",))
    if x.ins.get("numbers") != y.ins.get("numbers") or x.kind.arguments != y.kind.arguments:
        return OpMismatch("argument", x.step, x, y)
    names = tuple(name for name, value in x.outs.items() if y.outs.get(name) != value)
    return OpMismatch("op", x.step, x, y, names or tuple(x.outs))


def _makers(rows: Sequence[OpRow], values: set[int]) -> list[OpRow]:
    """Return those of `rows` that made these values, and those before them that made their inputs."""
    wanted, makers = set(values), list[OpRow]()
    for row in reversed(rows):
        if wanted & set(row.outs.values()):
            makers.insert(0, row)
            wanted |= set(_tensors(row.ins).values())
    return makers
