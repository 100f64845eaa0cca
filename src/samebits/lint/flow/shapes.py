"""The shape of a value: all that reading knows of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from samebits.lint.findings import ADDRESS, SEED
from samebits.lint.flow.source import last_name

DEEPEST_SHAPE = 4


@dataclass(frozen=True)
class Shape:
    """What is known of a value.

    Attributes:
        kind: set, list (anything with an order of its own), tuple (of known length), dict, view (of a dict), int,
            number, plain (certainly none of these), object (hashed by its address: a tensor, a module), address (what
            `id` gives), function, maker (a function whose result is `of`), class,
            instance, module, never (in an empty container), unknown.
        of: shapes of the members; for a dict, of its values.
        name: which function, class or module.
    """

    kind: str
    of: tuple[Shape, ...] = ()
    name: str = ""

    @property
    def depth(self) -> int:
        return 1 + max((shape.depth for shape in self.of), default=0)

    @property
    def member(self) -> Shape:
        """The shape of what a loop over it gives."""
        if self.kind in ("set", "list", "view"):
            return self.of[0]
        return joined(self.of) if self.kind == "tuple" else UNKNOWN

    @property
    def hash_depends_on(self) -> frozenset[str]:
        """Which factors may change its hash."""
        if self.kind in ("tuple", "list", "set"):
            return frozenset[str]().union(*(shape.hash_depends_on for shape in self.of))
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
RANKS = {"never": 0, "int": 1, "number": 1, "plain": 2, "object": 2, "address": 2, "unknown": 3, "set": 5}


def container(kind: str, *of: Shape) -> Shape:
    """A shape that holds others; what is nested too deep is forgotten."""
    return Shape(kind, tuple(UNKNOWN if shape.depth >= DEEPEST_SHAPE else shape for shape in of))


def join(a: Shape, b: Shape) -> Shape:
    """What a value is that is one or the other; suspicion wins."""
    if a == b:
        return a
    if {a.kind, b.kind} == {"int", "number"}:
        return NUMBER
    if (a.kind, a.name, len(a.of)) == (b.kind, b.name, len(b.of)):
        return Shape(a.kind, tuple(map(join, a.of, b.of)), a.name)
    return max(a, b, key=lambda shape: RANKS.get(shape.kind, 4))


def joined(shapes: Iterable[Shape]) -> Shape:
    """What a value is that is one of several."""
    whole = NEVER
    for shape in shapes:
        whole = join(whole, shape)
    return whole


def uniform(values: Sequence[Shape]) -> Shape:
    """What each value of a dict is; a record of mixed values says nothing about any one of them."""
    return joined(values) if len({value.kind for value in values} - {"never"}) <= 1 else UNKNOWN


def entry(owner: Shape, index: ast.expr) -> Shape:
    """The shape of `owner[index]`."""
    if isinstance(index, ast.Slice):
        return container("list", owner.member) if owner.kind in ("list", "tuple") else UNKNOWN
    if owner.kind == "tuple" and isinstance(index, ast.Constant) and isinstance(index.value, int):
        return owner.of[index.value] if -len(owner.of) <= index.value < len(owner.of) else UNKNOWN
    return owner.of[0] if owner.kind == "dict" else owner.member


def operated(operator: ast.operator, left: Shape, right: Shape) -> Shape:
    """The shape of what a binary operator gives."""
    kinds = {left.kind, right.kind}
    if isinstance(operator, ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub) and kinds & {"set", "view"}:
        return container("set", left.member if isinstance(operator, ast.Sub) else join(left.member, right.member))
    if kinds <= {"int", "number"}:
        return NUMBER if "number" in kinds or isinstance(operator, ast.Div | ast.Pow) else INT
    if isinstance(operator, ast.Add) and "list" in kinds:
        return container("list", join(left.member, right.member))
    return UNKNOWN


# ---- what annotations promise

SCALARS = {"int": INT, "bool": INT, "float": NUMBER, "complex": NUMBER, "str": PLAIN}
CONTAINERS = {
    **dict.fromkeys(["set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"], "set"),
    **dict.fromkeys(["dict", "Dict", "defaultdict", "DefaultDict", "OrderedDict", "Mapping", "MutableMapping"], "dict"),
    **dict.fromkeys(["list", "List", "Sequence", "MutableSequence", "deque", "Deque"], "list"),
}
WRAPPERS = {"Optional", "Union", "Final", "ClassVar", "Annotated"}


def promised(node: ast.expr | None, lookup: Callable[[str], Shape | None]) -> Shape:
    """The shape that an annotation promises; `lookup` knows the classes of the files at hand."""
    match node:
        case ast.Constant(value=str(text)):
            try:
                return promised(ast.parse(text, mode="eval").body, lookup)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return UNKNOWN
        case ast.Constant(value=None):
            return NUMBER
        case ast.BinOp():
            return join(promised(node.left, lookup), promised(node.right, lookup))
        case ast.Subscript(slice=ast.Tuple(elts=[each, ast.Constant(value=value)])) if value is ...:
            return container("list", promised(each, lookup))  # `tuple[str, ...]`
        case ast.Subscript():
            arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return _generic(last_name(node.value), [promised(argument, lookup) for argument in arguments])
        case ast.Name() | ast.Attribute():
            name = last_name(node)
            owner = lookup(name)
            if owner is not None and owner.kind == "class":
                return Shape("instance", name=owner.name)
            return SCALARS.get(name) or _generic(name, [])
    return UNKNOWN


def _generic(name: str, shapes: Sequence[Shape]) -> Shape:
    kind = CONTAINERS.get(name)
    if kind is not None:
        position = 1 if kind == "dict" else 0
        return container(kind, shapes[position] if position < len(shapes) else UNKNOWN)
    if name in ("tuple", "Tuple") and shapes:
        return container("tuple", *shapes)
    return joined(shapes) if name in WRAPPERS and shapes else UNKNOWN
