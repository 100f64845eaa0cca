"""The operations of two programs that are one script under two versions of torch, side by side.

Versions name operations otherwise and take them apart otherwise, so the lists need not be the same. Operations of one
name, module, pass and line are paired, as many as can be, in order; what is left between two pairs was done otherwise.
Pairs are looked at in order. Where what went in is equal and what came out is not, that operation differs. Where
something else went in, it was made by what was done otherwise before, or came from outside. A value that both programs
know, in another place only, is no difference. Both were recorded `by_value`.
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
class Aligned:
    """How far two lists of operations could be paired.

    Attributes:
        pairs: of the same operation.
        only_here, only_there: operations left over on either side.
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
        finding: `op` – inputs equal, results differ; `argument` – the same inputs, and called with other arguments;
            `otherwise` – other operations were done in its place; `generator` – about to draw from another state;
            `input` – something arrived different that no recorded operation made.
        step: in which.
        a, b: the operation on either side; None where there is none.
        names: which inputs or results differ.
        instead_a, instead_b: with `otherwise`, what each side did.
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
        """The operation to speak of."""
        found = (*self.instead_a, *self.instead_b, self.a, self.b)
        return next(row for row in found if row is not None)


def first_mismatch(a: Sequence[OpRow], b: Sequence[OpRow]) -> tuple[OpMismatch | None, Aligned]:
    """Where two programs part, by the operations of the steps that both recorded; None where they do not."""
    blocks = SequenceMatcher(None, [_key(row) for row in a], [_key(row) for row in b], autojunk=False).get_opcodes()
    pairs = sum(i2 - i1 for tag, i1, i2, _, _ in blocks if tag == "equal")
    aligned = Aligned(pairs, len(a) - pairs, len(b) - pairs)
    known_a, known_b = _values(a), _values(b)
    left_a: list[OpRow] = []
    left_b: list[OpRow] = []
    for tag, i1, i2, j1, j2 in blocks:
        if tag != "equal":
            left_a += a[i1:i2]
            left_b += b[j1:j2]
            continue
        for x, y in zip(a[i1:i2], b[j1:j2], strict=True):
            found = _mismatch(x, y, (known_a, known_b), (left_a, left_b))
            if found is not None:
                return found, aligned
    return None, aligned


def _key(row: OpRow) -> tuple[object, ...]:
    kind = row.kind
    # Overloads are renamed more often than operations are.
    return kind.pass_, kind.module, kind.op.partition(".")[0], kind.path, kind.line, row.step


def _values(rows: Iterable[OpRow]) -> set[int]:
    """Every value of a tensor that went into an operation, or came out of one."""
    return {value for row in rows for value in (*_tensors(row.ins).values(), *row.outs.values())}


def _tensors(ins: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in ins.items() if name not in _NO_TENSORS}


def _mismatch(
    x: OpRow, y: OpRow, known: tuple[set[int], set[int]], left: tuple[list[OpRow], list[OpRow]]
) -> OpMismatch | None:
    if list(_tensors(x.ins).values()) == list(_tensors(y.ins).values()):
        return _by_itself(x, y, known)
    if x.ins.keys() == y.ins.keys():
        names = tuple(name for name, value in _tensors(x.ins).items() if y.ins[name] != value)
    else:
        names = tuple(_tensors(x.ins))
    strange_a = {value for value in _tensors(x.ins).values() if value not in known[1]}
    strange_b = {value for value in _tensors(y.ins).values() if value not in known[0]}
    if not strange_a and not strange_b:
        # The same values, in another order of operations: what was made of them is compared elsewhere.
        return None
    made_a, made_b = _makers(left[0], strange_a), _makers(left[1], strange_b)
    if made_a or made_b:
        return OpMismatch("otherwise", x.step, x, y, names, tuple(made_a), tuple(made_b))
    return OpMismatch("input", x.step, x, y, names)


def _by_itself(x: OpRow, y: OpRow, known: tuple[set[int], set[int]]) -> OpMismatch | None:
    """What differs although the same went in."""
    if list(x.outs.values()) == list(y.outs.values()):
        return None
    if all(value in known[1] for value in x.outs.values()) and all(value in known[0] for value in y.outs.values()):
        return None
    if x.ins.get("generator") != y.ins.get("generator"):
        return OpMismatch("generator", x.step, x, y, ("generator",))
    if x.ins.get("numbers") != y.ins.get("numbers") or x.kind.arguments != y.kind.arguments:
        return OpMismatch("argument", x.step, x, y)
    names = tuple(name for name, value in x.outs.items() if y.outs.get(name) != value)
    return OpMismatch("op", x.step, x, y, names or tuple(x.outs))


def _makers(rows: Sequence[OpRow], values: set[int]) -> list[OpRow]:
    """The operations that made these values, and those before them that made what went into these, among `rows`."""
    wanted, found = set(values), list[OpRow]()
    for row in reversed(rows):
        if wanted & set(row.outs.values()):
            found.insert(0, row)
            wanted |= set(_tensors(row.ins).values())
    return found
