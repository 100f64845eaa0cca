"""What reading knows of a value, and what an annotation promises of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from samebits.lint.findings import ADDRESS, SEED
from samebits.lint.source import last_name

DEEPEST = 4


@dataclass(frozen=True)
class Shape:
    """What is known of a value.

    Attributes:
        kind: set, list (anything with an order of its own), tuple (of known length), dict, view (of a dict), int,
            number, plain (certainly none of these), object (hashed by its address: a tensor, a module), address (what
            `id` gives), maker (a function whose result is `of`), function, class, instance, never (in an empty
            container), unknown.
        of: the members; of a dict, its values.
        name: which function or class.
    """

    kind: str
    of: tuple[Shape, ...] = ()
    name: str = ""

    @property
    def depth(self) -> int:
        return 1 + max((value.depth for value in self.of), default=0)

    @property
    def member(self) -> Shape:
        """What a loop over it gives."""
        if self.kind in ("set", "list", "view"):
            return self.of[0]
        return joined(self.of) if self.kind == "tuple" else UNKNOWN

    @property
    def hash_depends_on(self) -> frozenset[str]:
        """Which factors may change its hash."""
        if self.kind in ("tuple", "list", "set"):
            return frozenset[str]().union(*(value.hash_depends_on for value in self.of))
        return HASHED.get(self.kind, frozenset({SEED, ADDRESS}))

    @property
    def order_depends_on(self) -> frozenset[str]:
        """Which factors may change the order in which it is iterated."""
        return self.of[0].hash_depends_on if self.kind == "set" else frozenset()


HASHED = {
    **dict.fromkeys(["int", "number"], frozenset[str]()),
    **dict.fromkeys(["object", "address"], frozenset({ADDRESS})),
    "plain": frozenset({SEED}),
}
UNKNOWN, NEVER, PLAIN, INT, NUMBER = map(Shape, ("unknown", "never", "plain", "int", "number"))
OBJECT, ADDRESSED = Shape("object"), Shape("address")
# Of two things that a value may be, the more suspicious one counts.
RANKS = {"never": 0, "int": 1, "number": 1, "plain": 2, "object": 2, "address": 2, "unknown": 3, "set": 5}


def container(kind: str, *of: Shape) -> Shape:
    """A value that holds others; what is nested too deep is forgotten."""
    return Shape(kind, tuple(UNKNOWN if value.depth >= DEEPEST else value for value in of))


def join(a: Shape, b: Shape) -> Shape:
    """What is one or the other."""
    if a == b:
        return a
    if {a.kind, b.kind} == {"int", "number"}:
        return NUMBER
    if (a.kind, a.name, len(a.of)) == (b.kind, b.name, len(b.of)):
        return Shape(a.kind, tuple(map(join, a.of, b.of)), a.name)
    return max(a, b, key=lambda value: RANKS.get(value.kind, 4))


def joined(values: Iterable[Shape]) -> Shape:
    """What is one of several."""
    whole = NEVER
    for value in values:
        whole = join(whole, value)
    return whole


def uniform(values: Sequence[Shape]) -> Shape:
    """What each value of a dict is; a record of mixed values says nothing about any one of them."""
    return joined(values) if len({value.kind for value in values} - {"never"}) <= 1 else UNKNOWN


def entry(owner: Shape, index: ast.expr) -> Shape:
    """What `owner[index]` is."""
    if isinstance(index, ast.Slice):
        return container("list", owner.member) if owner.kind in ("list", "tuple") else UNKNOWN
    return owner.of[0] if owner.kind == "dict" else owner.member


def operated(operator: ast.operator, left: Shape, right: Shape) -> Shape:
    """What a binary operator gives."""
    kinds = {left.kind, right.kind}
    if isinstance(operator, ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub) and kinds & {"set", "view"}:
        return container("set", left.member if isinstance(operator, ast.Sub) else join(left.member, right.member))
    if kinds <= {"int", "number"}:
        return NUMBER if "number" in kinds or isinstance(operator, ast.Div | ast.Pow) else INT
    if isinstance(operator, ast.Add) and "list" in kinds:
        return container("list", join(left.member, right.member))
    return UNKNOWN


SCALARS = {"int": INT, "bool": INT, "float": NUMBER, "complex": NUMBER, "str": PLAIN, "None": NUMBER}
CONTAINERS = {
    **dict.fromkeys(["set", "frozenset", "abstractset", "mutableset"], "set"),
    **dict.fromkeys(["dict", "defaultdict", "ordereddict", "mapping", "mutablemapping"], "dict"),
    **dict.fromkeys(["list", "sequence", "mutablesequence", "deque"], "list"),
}


def promised(node: ast.expr | None) -> Shape:
    """What an annotation promises."""
    match node:
        case ast.Constant(value=str(text)):
            try:
                return promised(ast.parse(text, mode="eval").body)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return UNKNOWN
        case ast.BinOp():
            return join(promised(node.left), promised(node.right))
        case ast.Subscript():
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            values, name = [promised(part) for part in parts], last_name(node.value).lower()
            if name in CONTAINERS:
                return container(CONTAINERS[name], values[-1])
            if name == "tuple":
                is_open = len(parts) == 2 and isinstance(parts[1], ast.Constant)
                return container("list", values[0]) if is_open else container("tuple", *values)
            return joined(values) if name in ("optional", "union") else UNKNOWN
        case ast.Name() | ast.Attribute():
            kind = CONTAINERS.get(last_name(node).lower())
            return container(kind, UNKNOWN) if kind else SCALARS.get(last_name(node), UNKNOWN)
    return NUMBER if isinstance(node, ast.Constant) and node.value is None else UNKNOWN
