"""Functions and methods known by name: what they see of the order of a set, and what they give."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.lint.findings import LISTS, LOOPS, NUMBERS, WEAK
from samebits.lint.flow.shapes import ADDRESSED, INT, NEVER, NUMBER, OBJECT, PLAIN, UNKNOWN, Shape, container, joined

SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
SET_CHANGES = {"add", "discard", "remove", "update", "difference_update", "intersection_update"}
LOGGING = {"debug", "info", "warning", "warn", "error", "exception"}

# These do not see the order of what they are given, or show it to people only.
BLIND_BUILTINS = {"sorted", "set", "frozenset", "len", "min", "max", "any", "all", "bool", "print"}
BLIND = BLIND_BUILTINS | SET_METHODS | LOGGING | {"difference_update", "intersection_update", "fsum", "isdisjoint"}
BLIND |= {"isin", "issubset", "issuperset", "nlargest", "nsmallest"}
BLIND_IN_NUMPY = {"np.unique", "np.sort", "numpy.unique", "numpy.sort"}
CHOOSING = {"sorted", "min", "max", "nlargest", "nsmallest"}  # blind, unless a key lets members tie

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


def function_result(name: str, shapes: Sequence[Shape], made: Shape) -> Shape:
    """What a function gives for arguments of these shapes; `made` is what the first would give if it were called."""
    first = shapes[0] if shapes else UNKNOWN
    if name in KEEPING:
        return first
    if name == "enumerate":
        return container("list", container("tuple", INT, first.member))
    if name == "zip":
        return container("list", container("tuple", *[shape.member for shape in shapes]))
    if name == "map" or (name == "defaultdict" and shapes):
        return container("list" if name == "map" else "dict", made)
    result = MADE.get(name, UNKNOWN)
    is_filled = shapes and name != "range" and result.kind in ("set", "list")
    return container(result.kind, first.member) if is_filled else result


def method_result(owner: Shape, name: str, shapes: Sequence[Shape]) -> Shape:
    """What a method gives."""
    if owner.kind == "maker" and shapes:  # `set.union(names, more)`
        owner, shapes = shapes[0], shapes[1:]
    value = owner.of[0] if owner.kind == "dict" else UNKNOWN
    if owner.kind == "set" and name in SET_METHODS:
        is_wider = name in ("union", "symmetric_difference")
        return container("set", joined([owner.member, *(shape.member for shape in shapes if is_wider)]))
    if name in OBJECTS:
        return container("list", OBJECT)
    if name in NAMED_OBJECTS:
        return container("list", container("tuple", PLAIN, OBJECT))
    if name == "items":
        return container("view", container("tuple", UNKNOWN, value))
    if name in ("keys", "values") and not shapes:
        return container("list", value) if name == "values" else container("view", UNKNOWN)
    if name in ("get", "setdefault", "pop"):
        return joined([value if owner.kind == "dict" else owner.member, *shapes[1:2]])
    if name == "copy":
        return owner
    return INT if name in INTEGER_METHODS else UNKNOWN
