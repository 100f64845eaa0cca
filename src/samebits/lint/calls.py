"""Functions and methods known by name: what they see of the order of a set, and what they give."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from samebits.lint.findings import LISTS, LOOPS, NUMBERS, WEAK
from samebits.lint.source import Source, dotted, last_name
from samebits.lint.values import ADDRESSED, INT, NEVER, NUMBER, OBJECT, PLAIN, UNKNOWN, Shape, container, joined

SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
SET_CHANGES = {"add", "discard", "remove", "update", "difference_update", "intersection_update"}
LOGGING = {"debug", "info", "warning", "warn", "error", "exception"}

# These do not see the order of what they are given, or show it to people only.
BLIND_BUILTINS = {"sorted", "set", "frozenset", "len", "min", "max", "any", "all", "bool", "print"}
BLIND = BLIND_BUILTINS | SET_METHODS | LOGGING | {"difference_update", "intersection_update", "fsum", "isdisjoint"}
BLIND |= {"isin", "issubset", "issuperset", "nlargest", "nsmallest"}
BLIND_IN_NUMPY = {"np.unique", "np.sort", "numpy.unique", "numpy.sort"}
CHOOSING = {"sorted", "min", "max", "nlargest", "nsmallest"}  # blind, unless a key lets members tie
TOTAL_KEYS = {"str", "repr", "int", "float", "ord", "fspath"}

# These see the order. What comes out of them can still be levelled, as in `sorted(list(words))`, unless it is ranked.
ORDERING = {
    **dict.fromkeys(["list", "tuple", "enumerate", "zip", "zip_longest"], NUMBERS),
    **dict.fromkeys(["accumulate", "combinations", "deque", "extend", "fromiter", "islice", "permutations"], LISTS),
    **dict.fromkeys(["chain", "cycle", "dict", "filter", "from_iterable", "fromkeys", "imap", "iter", "join"], LOOPS),
    **dict.fromkeys(["map", "product", "reduce", "starmap", "writelines"], LOOPS),
    **dict.fromkeys(["clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector"], NUMBERS),
    **dict.fromkeys(["str", "repr"], WEAK),
}
RANKING = {"enumerate", "zip", "zip_longest", "accumulate", "combinations", "islice", "permutations", "cycle", "reduce"}

# What a module of torch says of itself, hashed by address.
OBJECTS = {"parameters", "buffers", "modules", "children"}
NAMED_OBJECTS = {f"named_{name}" for name in OBJECTS}

KEEPING = {"copy", "deepcopy", "tqdm", "track"}
INTEGER_METHODS = {"count", "index", "find", "randint", "randrange", "numel"}
MADE = {
    **dict.fromkeys(["set", "frozenset"], container("set", NEVER)),
    **dict.fromkeys(["list", "tuple", "sorted", "reversed", "iter", "deque"], container("list", NEVER)),
    **dict.fromkeys(["dict", "defaultdict"], container("dict", NEVER)),
    **dict.fromkeys(["len", "int", "ord", "bool", "hash"], INT),
    "id": ADDRESSED,
    **dict.fromkeys(["float", "abs", "round", "sum", "fsum"], NUMBER),
    "range": container("list", INT),
}


def function_result(name: str, values: Sequence[Shape], made: Shape) -> Shape:
    """What a function gives for these arguments; `made` is what the first would give if it were called."""
    first = values[0] if values else UNKNOWN
    if name in KEEPING:
        return first
    if name == "enumerate":
        return container("list", container("tuple", INT, first.member))
    if name == "zip":
        return container("list", container("tuple", *[value.member for value in values]))
    if name == "map" or (name == "defaultdict" and values):
        return container("list" if name == "map" else "dict", made)
    result = MADE.get(name, UNKNOWN)
    is_filled = values and name != "range" and result.kind in ("set", "list")
    return container(result.kind, first.member) if is_filled else result


def method_result(owner: Shape, name: str, values: Sequence[Shape]) -> Shape:
    """What a method gives."""
    if owner.kind == "maker" and values:  # `set.union(names, more)`
        owner, values = values[0], values[1:]
    value = owner.of[0] if owner.kind == "dict" else UNKNOWN
    if owner.kind == "set" and name in SET_METHODS:
        is_wider = name in ("union", "symmetric_difference")
        return container("set", joined([owner.member, *(value.member for value in values if is_wider)]))
    if name in OBJECTS:
        return container("list", OBJECT)
    if name in NAMED_OBJECTS:
        return container("list", container("tuple", PLAIN, OBJECT))
    if name == "items":
        return container("view", container("tuple", UNKNOWN, value))
    if name in ("keys", "values") and not values:
        return container("list", value) if name == "values" else container("view", UNKNOWN)
    if name in ("get", "setdefault", "pop"):
        return joined([value if owner.kind == "dict" else owner.member, *values[1:2]])
    if name == "copy":
        return owner
    return INT if name in INTEGER_METHODS else UNKNOWN


def may_tie(node: ast.Call) -> bool:
    """Whether a call sorts by a key that two members of a set may share."""
    keys = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
    if keys and isinstance(keys[0], ast.Lambda):
        names = {argument.arg for argument in keys[0].args.args}
        body = keys[0].body
        parts = body.elts if isinstance(body, ast.Tuple) else [body]
        return not any(isinstance(part, ast.Name) and part.id in names for part in parts)
    return bool(keys) and last_name(keys[0]) not in TOTAL_KEYS and not isinstance(keys[0], ast.Constant)


def is_sorted_later(source: Source, name: str, after: ast.stmt) -> bool:
    """Whether, after a statement, nothing looks at the order of a list before it is sorted, if ever."""
    end, here = (after.end_lineno or 0, after.end_col_offset or 0), source.function_of(after)
    mentions = source.mentions.get(name, [])
    nearby = [node for node in mentions if source.function_of(node) is here]
    later = [_use_of(source, node) for node in nearby if (node.lineno, node.col_offset) >= end]
    telling = [use for use in later if use != "blind"]
    if telling:
        return telling[0] == "sorts"
    return bool(later) and all(_use_of(source, node) == "blind" for node in mentions if node not in nearby)


def _use_of(source: Source, mention: ast.expr) -> str:
    """Whether the place where a list is mentioned sorts it, is blind to its order, or neither."""
    parent = source.parents[mention]
    match parent:
        case ast.Attribute(attr="sort"):
            call = source.parents[parent]
            return "sorts" if isinstance(call, ast.Call) and not may_tie(call) else "other"
        case ast.Attribute(attr="append" | "extend"):
            return "blind"
        case ast.Assign(value=ast.Call(func=ast.Name(id="sorted"), args=[first]) as call):
            return "sorts" if dotted(first) == dotted(mention) and not may_tie(call) else "other"
        case ast.Call(func=ast.Name(id=name)) if name in BLIND_BUILTINS:
            return "other" if may_tie(parent) else "blind"
        case ast.Compare(ops=[ast.In() | ast.NotIn()]) if mention is not parent.left:
            return "blind"
    return "other"
