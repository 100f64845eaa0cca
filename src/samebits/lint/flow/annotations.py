"""The shape that a type annotation promises."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from samebits.lint.flow.shapes import INT, NUMBER, PLAIN, UNKNOWN, Shape, container, join, joined
from samebits.lint.flow.source import last_name

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
