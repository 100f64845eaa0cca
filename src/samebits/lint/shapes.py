"""Shapes: what reading knows of a value, from its use, from annotations, and from functions that are known by name."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from samebits.lint.findings import ADDRESS, SEED
from samebits.lint.source import last_name

DEEPEST = 4


class Shape(NamedTuple):
    """The shape of a value: what reading knows of it.

    Attributes:
        kind: set, list (anything with an order of its own), tuple (of known length), dict, view (of a dict), int,
            number, plain (certainly none of these), object (hashed by its address: a tensor, a module), address (what
            `id` gives), maker (a function whose result is `of`), function, class, instance, module, never (in an empty
            container), unknown.
        of: the shapes of the members; of a dict, that of its values.
        name: name of the function or class; of a maker, that of the builtin.
    """

    kind: str
    of: tuple[Shape, ...] = ()
    name: str = ""

    @property
    def depth(self) -> int:
        return 1 + max((value.depth for value in self.of), default=0)

    @property
    def member(self) -> Shape:
        """The shape of what a loop over the value gives."""
        if self.kind in ("set", "list", "view"):
            return self.of[0]
        return joined(self.of) if self.kind == "tuple" else UNKNOWN

    @property
    def value(self) -> Shape:
        """The shape of what a key of a dict gives."""
        return self.of[0] if self.kind == "dict" else UNKNOWN

    @property
    def hash_depends_on(self) -> frozenset[str]:
        """The factors that may change the hash of the value."""
        if self.kind in ("tuple", "list", "set"):
            return frozenset[str]().union(*(value.hash_depends_on for value in self.of))
        return _HASHED.get(self.kind, frozenset({SEED, ADDRESS}))

    @property
    def order_depends_on(self) -> frozenset[str]:
        """The factors that may change the order in which the value is iterated."""
        return self.of[0].hash_depends_on if self.kind == "set" else frozenset()


UNKNOWN, NEVER, PLAIN, INT, NUMBER = map(Shape, ("unknown", "never", "plain", "int", "number"))
OBJECT, ADDRESSED, MODULE = map(Shape, ("object", "address", "module"))
_HASHED = {
    **dict.fromkeys(["int", "number"], frozenset[str]()),
    **dict.fromkeys(["object", "address"], frozenset({ADDRESS})),
    "plain": frozenset({SEED}),
}
# Of two kinds that a value may be of, the more suspicious one counts.
_RANKS = {"never": 0, "int": 1, "number": 1, "plain": 2, "object": 2, "address": 2, "unknown": 3, "set": 5}


def container(kind: str, *of: Shape) -> Shape:
    """Return the shape of a value that holds others; members that are nested too deep become unknown."""
    return Shape(kind, tuple(UNKNOWN if value.depth >= DEEPEST else value for value in of))


def join(a: Shape, b: Shape) -> Shape:
    """Return the shape of a value that has one of two shapes."""
    if a is b or b is NEVER or a == b:
        return a
    if {a.kind, b.kind} == {"int", "number"}:
        return NUMBER
    if (a.kind, a.name, len(a.of)) == (b.kind, b.name, len(b.of)):
        return Shape(a.kind, tuple(map(join, a.of, b.of)), a.name)
    return b if _RANKS.get(b.kind, 4) > _RANKS.get(a.kind, 4) else a


def joined(values: Iterable[Shape]) -> Shape:
    """Return the shape of a value that has one of several shapes."""
    whole = NEVER
    for value in values:
        whole = join(whole, value)
    return whole


def uniform(values: Sequence[Shape]) -> Shape:
    """Return the shape of each value of a dict; a record of mixed values says nothing about a single one."""
    return joined(values) if len({value.kind for value in values} - {"never"}) <= 1 else UNKNOWN


def operator_shape(operator: ast.operator, left: Shape, right: Shape) -> Shape:
    """Return the shape of the result of a binary operator."""
    kinds = {left.kind, right.kind}
    if isinstance(operator, ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub) and kinds & {"set", "view"}:
        return container("set", left.member if isinstance(operator, ast.Sub) else join(left.member, right.member))
    if kinds <= {"int", "number"}:
        return NUMBER if "number" in kinds or isinstance(operator, ast.Div | ast.Pow) else INT
    return container("list", join(left.member, right.member)) if "list" in kinds else UNKNOWN


# ---- annotations

_SCALARS = {
    **{"int": INT, "bool": INT, "float": NUMBER, "complex": NUMBER, "str": PLAIN, "None": NUMBER},
    **{"Never": NEVER, "Address": ADDRESSED, "Object": OBJECT},
}
_CONTAINERS = {
    **dict.fromkeys(["set", "frozenset", "abstractset", "mutableset", "weakset"], "set"),
    **dict.fromkeys(["dict", "defaultdict", "ordereddict", "mapping", "mutablemapping"], "dict"),
    **dict.fromkeys(["list", "sequence", "mutablesequence", "deque"], "list"),
    "view": "view",
}


@cache
def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def annotated_shape(node: ast.expr | None, named: Callable[[str], Shape | None]) -> Shape:
    """Return the shape that an annotation promises; `named` gives that of a name in it which is no builtin."""
    match node:
        case ast.Constant(value=None):
            return NUMBER
        case ast.Constant(value=str(text)):
            with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
                return annotated_shape(_expression(text), named)
        case ast.BinOp():
            return join(annotated_shape(node.left, named), annotated_shape(node.right, named))
        case ast.Subscript():
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            values, name = [annotated_shape(part, named) for part in parts], last_name(node.value).lower()
            if name in _CONTAINERS and values:
                return container(_CONTAINERS[name], values[-1])
            if name == "tuple":
                is_open = len(parts) == 2 and isinstance(parts[1], ast.Constant)
                return container("list", values[0]) if is_open else container("tuple", *values)
            return joined(values) if name in ("optional", "union") else UNKNOWN
        case ast.Name() | ast.Attribute():
            shape, kind = named(last_name(node)), _CONTAINERS.get(last_name(node).lower())
            return shape or (container(kind, UNKNOWN) if kind else _SCALARS.get(last_name(node), UNKNOWN))
    return UNKNOWN


# ---- functions that are known by name

# Function → what it returns, as an annotation: `A` is the first argument, `B` the second, `T` and `U` their members;
# `R` is what `A` returns if it is called, `V` what `A` holds under a key.
_FUNCTIONS = {
    **dict.fromkeys(["set", "frozenset", "WeakSet"], "set[T]"),
    **dict.fromkeys(["list", "tuple", "sorted", "reversed", "iter", "deque"], "list[T]"),
    **dict.fromkeys(["len", "int", "ord", "bool", "hash", "getuid", "getpid", "crc32"], "int"),
    **dict.fromkeys(["float", "abs", "round", "sum", "fsum"], "float"),
    **dict.fromkeys(["copy", "deepcopy", "tqdm", "track"], "A"),
    **{"id": "Address", "range": "list[int]", "dict": "dict[Never]", "defaultdict": "dict[R]", "map": "list[R]"},
    **{"enumerate": "list[tuple[int, T]]", "zip": "list[tuple[T, U]]"},
    "wait": "tuple[set[Object], set[Object]]",  # tasks and futures
}
# For methods, `A` is the object. Parameters, buffers and modules of torch hash by their addresses.
_METHODS = {
    **dict.fromkeys(["set.union", "set.symmetric_difference"], "set[T | U]"),
    **dict.fromkeys(["set.difference", "set.intersection"], "set[T]"),
    **dict.fromkeys(["parameters", "buffers", "modules", "children"], "list[Object]"),
    **dict.fromkeys(
        [f"named_{name}" for name in ("parameters", "buffers", "modules", "children")], "list[NamedObject]"
    ),
    **dict.fromkeys(["split", "rsplit", "splitlines", "readlines"], "list[str]"),
    **dict.fromkeys(["strip", "lstrip", "rstrip", "lower", "upper", "title", "replace", "format", "decode"], "str"),
    **dict.fromkeys(["dict.get", "dict.setdefault", "dict.pop"], "V | B"),
    **dict.fromkeys(["count", "index", "find", "randint", "randrange", "numel"], "int"),
    **{"items": "view[tuple[Unknown, V]]", "keys": "view[Unknown]", "values": "list[V]", "pop": "T", "copy": "A"},
}
_NAMED_OBJECT = container("tuple", PLAIN, OBJECT)


def returned_shape(name: str, owner: Shape | None = None, values: Sequence[Shape] = (), made: Shape = UNKNOWN) -> Shape:
    """Return the shape that a function, or method of `owner`, returns; `made` is that of calling its first argument."""
    # A function of a module rarely does what the builtin of the same name does, but `pool.map` does.
    is_function = owner is None or (owner.kind == "module" and name not in vars(builtins)) or name == "map"
    text = _FUNCTIONS.get(name) if is_function else None
    if text is None:
        owner = owner or UNKNOWN
        if owner.kind == "maker" and values:  # `set.union(names, more)`
            owner, values = values[0], values[1:]
        text, values = _METHODS.get(f"{owner.kind}.{name}") or _METHODS.get(name), [owner, *values]
        if text is None:
            return UNKNOWN
    first, second = [*values[:2], NEVER, NEVER][:2]
    # Without an argument, the container that is returned is empty.
    members = [NEVER if shape == NEVER else shape.member for shape in (first, second)]
    named = {"A": first, "B": second, "T": members[0], "U": members[1], "V": first.value}
    return annotated_shape(
        _expression(text), {**named, "R": made if values else NEVER, "NamedObject": _NAMED_OBJECT}.get
    )
