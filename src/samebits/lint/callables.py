"""Functions and methods known by name: what they see of the order of a set, and what they give."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.lint.findings import LISTS, LOOPS, NUMBERS, WEAK
from samebits.lint.shapes import INT, NEVER, NUMBER, UNKNOWN, Shape, container, joined

# These do not see the order of what they are given, or show it to people only.
LOGGING = {"debug", "info", "warning", "warn", "error", "exception"}
BLIND_BUILTINS = {"sorted", "set", "frozenset", "len", "min", "max", "any", "all", "bool", "print"}
BLIND_FUNCTIONS = BLIND_BUILTINS | {"nsmallest", "nlargest", "fsum"}
CHOOSING = {"sorted", "min", "max", "nsmallest", "nlargest"}

SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
SET_UPDATES = {"update", "intersection_update", "difference_update", "symmetric_difference_update"}
SET_CHANGES = SET_UPDATES | {"add", "discard", "remove", "clear"}
BLIND_METHODS = SET_METHODS | LOGGING | {"issubset", "issuperset", "isdisjoint", "isin", "in1d"}
BLIND_METHODS |= {"nsmallest", "nlargest", "fsum", "np.unique", "np.sort", "numpy.unique", "numpy.sort"}
# Which argument becomes a member.
GROWING_METHODS = {"add": 0, "append": 0, "appendleft": 0, "insert": 1, "setdefault": 1}

# These see the order. What comes out of them can still be levelled, as in `sorted(list(words))`, unless it is ranked.
ORDERING = {
    **dict.fromkeys(["list", "tuple", "enumerate", "zip", "zip_longest"], NUMBERS),
    **dict.fromkeys(["accumulate", "batched", "combinations", "deque", "extend", "fromiter"], LISTS),
    **dict.fromkeys(["islice", "pairwise", "permutations"], LISTS),
    **dict.fromkeys(["chain", "cycle", "dict", "filter", "from_iterable", "fromkeys", "imap", "iter", "join"], LOOPS),
    **dict.fromkeys(["map", "product", "reduce", "starmap", "writelines"], LOOPS),
    **dict.fromkeys(["str", "repr"], WEAK),
}
RANKING = {"enumerate", "zip", "zip_longest", "accumulate", "batched", "combinations", "islice", "pairwise"}
RANKING |= {"permutations", "cycle", "reduce"}

KEEPING = {"copy", "deepcopy", "tqdm", "track"}
CONVERTING = {"tensor", "as_tensor", "array", "asarray"}

MADE = {
    **dict.fromkeys(["set", "frozenset"], container("set", NEVER)),
    **dict.fromkeys(["list", "tuple", "sorted", "reversed", "iter", "deque"], container("list", NEVER)),
    **dict.fromkeys(["dict", "defaultdict"], container("dict", NEVER)),
    **dict.fromkeys(["len", "int", "ord", "bool", "id", "hash"], INT),
    **dict.fromkeys(["float", "abs", "round", "sum", "fsum"], NUMBER),
}
INTEGER_METHODS = {"count", "index", "find", "randint", "randrange", "numel"}


def function_result(name: str, shapes: Sequence[Shape], made: Shape) -> Shape:
    """What a function gives for arguments of these shapes; `made` is what the first would give if it were called."""
    made_empty = MADE.get(name, UNKNOWN)
    match name, shapes:
        case "enumerate", [first, *_]:
            return container("list", container("tuple", INT, first.member))
        case "zip", _:
            return container("list", container("tuple", *[shape.member for shape in shapes]))
        case "range", _:
            return container("list", INT)
        case "map", _:
            return container("list", made)
        case "filter", [_, items]:
            return container("list", items.member)
        case "next" | "min" | "max", [first]:
            return first.member
        case "defaultdict", [_, *_]:
            return container("dict", made)
        case "dict", [first, *_]:
            return first if first.kind == "dict" else container("dict", UNKNOWN)
        case _, [first, *_] if name in KEEPING:
            return first
        case _, [first, *_] if made_empty.kind in ("set", "list"):
            return container(made_empty.kind, first.member)
    return made_empty


def method_result(owner: Shape, name: str, shapes: Sequence[Shape]) -> Shape:
    """What a method gives."""
    if owner.kind == "maker" and shapes:  # `set.union(names, more)`
        owner, shapes = shapes[0], shapes[1:]
    if owner.kind == "set" and name in SET_METHODS:
        is_wider = name in ("union", "symmetric_difference")
        return container("set", joined([owner.member, *(shape.member for shape in shapes if is_wider)]))
    if name in ("keys", "items", "values") and not shapes:
        value = owner.of[0] if owner.kind == "dict" else UNKNOWN
        if name == "items":
            return container("view", container("tuple", UNKNOWN, value))
        return container("list", value) if name == "values" else container("view", UNKNOWN)
    if name in ("get", "setdefault", "pop"):
        value = owner.of[0] if owner.kind == "dict" else NEVER if len(shapes) == 2 else owner.member
        return joined([value, *shapes[1:2]])
    if name == "copy":
        return owner
    return INT if name in INTEGER_METHODS else UNKNOWN
