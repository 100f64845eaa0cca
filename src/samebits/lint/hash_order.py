"""Lines that let the hash seed or addresses in: the order of a set is used, `hash()` is called, or `id()` orders.

Reading a set leaves no trace at run time, so once such a factor is known to matter, only the source can say where.
A set whose members may be strings has an order that changes from run to run. What does not care about order (`sorted`,
`len`, another set) is passed by in silence, and so are sets of numbers, whose hashes have no seed. Strings hash by the
seed, parameters and modules by their addresses, and what is not known may do either.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from samebits.lint.findings import ADDRESS, LISTS, LOOPS, NUMBERS, SILENT, WEAK, Finding
from samebits.lint.flow import Flow
from samebits.lint.shapes import ADDRESSED, INT, UNKNOWN
from samebits.lint.source import Source, dotted, last_name, read_sources, walk

# These do not see the order of what they are given, or show it to people only.
_BLIND_BUILTINS = {"sorted", "set", "frozenset", "len", "min", "max", "any", "all", "bool", "print"}
_LOGGING = {"debug", "info", "warning", "warn", "error", "exception"}
_SET_CHANGES = {"add", "discard", "remove", "update", "difference_update", "intersection_update"}
_BLIND = _BLIND_BUILTINS | _LOGGING
_BLIND |= {"union", "intersection", "difference", "symmetric_difference", "difference_update", "intersection_update"}
_BLIND |= {"isdisjoint", "issubset", "issuperset", "fsum", "isin", "nlargest", "nsmallest"}
_BLIND_IN_NUMPY = {"np.unique", "np.sort", "numpy.unique", "numpy.sort"}
CHOOSING = {"sorted", "min", "max", "nlargest", "nsmallest"}  # blind, unless a key lets members tie
_TOTAL_KEYS = {"str", "repr", "int", "float", "ord", "fspath", "index"}
# These give back what they are given.
_KEEPING = {"copy", "deepcopy", "tqdm", "track"}
# These see the order. What comes out of them can still be levelled, as in `sorted(list(words))`, unless it is ranked.
ORDERING = {
    **dict.fromkeys(["list", "tuple", "enumerate", "zip", "zip_longest"], NUMBERS),
    **dict.fromkeys(["accumulate", "combinations", "deque", "extend", "fromiter", "islice", "permutations"], LISTS),
    **dict.fromkeys(["chain", "cycle", "dict", "filter", "from_iterable", "fromkeys", "imap", "iter", "join"], LOOPS),
    **dict.fromkeys(["map", "product", "reduce", "starmap", "writelines"], LOOPS),
    **dict.fromkeys(["clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector"], NUMBERS),
    **dict.fromkeys(["str", "repr", "sum", *CHOOSING], WEAK),
}
# What is put into these comes out in the order of its first members that differ.
HEAPS = {"heappush", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right", "put", "put_nowait"}
_RANKING = {"enumerate", "zip", "zip_longest", "islice"}
_RANKING |= {"accumulate", "combinations", "permutations", "cycle", "reduce"}
_COMPREHENSIONS = {ast.SetComp: SILENT, ast.ListComp: LISTS, ast.GeneratorExp: LOOPS, ast.DictComp: LOOPS}
# What may use an order, besides the name `hash`.
_USING = (ast.For, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.YieldFrom, ast.Starred)
_USING += (ast.Tuple, ast.List, ast.AugAssign, ast.BinOp, ast.Compare, ast.Call)  # type: ignore[assignment]
_ADDRESS = frozenset({ADDRESS})

# Where, why, how likely it matters, and what it depends on.
_Use = tuple[ast.AST, str, int, frozenset[str]]


def find_hash_order(paths: Iterable[str | Path]) -> list[Finding]:
    """Lines that depend on hashes or addresses, the likeliest first, then by path and line; one finding a line.

    What cannot be read or parsed is skipped. Files that import each other are best given together.
    """
    sources = read_sources(paths)
    flow, best = Flow(sources), dict[tuple[str, int], Finding]()
    found = [one for source in sources for _, one in uses_in(source, flow)]
    for one in sorted(found, key=lambda finding: (-finding.weight, finding.path, finding.line)):
        best.setdefault((one.path, one.line), one)
    return [*best.values()]


def uses_in(source: Source, flow: Flow) -> Iterator[tuple[ast.AST, Finding]]:
    """Every use of such an order in a file that may matter to somebody, with the place."""
    uses = _Uses(source, flow)
    for node in (*source.named["hash"], *source.every(*_USING)):
        for place, reason, weight, depends_on in uses.at(node):
            if weight > SILENT and depends_on:
                yield place, Finding.at(source, place, reason, weight, depends_on)


def taken_by(node: ast.AST) -> Sequence[ast.expr]:
    """What a statement or an expression takes the members of, in their order."""
    match node:
        case ast.For(iter=one) | ast.AsyncFor(iter=one) | ast.comprehension(iter=one):
            return [one]
        case ast.Starred(value=one) | ast.YieldFrom(value=one) | ast.AugAssign(value=one):
            return [one]
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=one):
            return [one]
        case ast.Call(args=given) if last_name(node.func) in {*ORDERING, "reversed", "array", "tensor"}:
            return given
    return []


class _Uses:
    """Where a file uses the order of sets, hashes and addresses."""

    def __init__(self, source: Source, flow: Flow) -> None:
        self.source, self.flow = source, flow

    def at(self, node: ast.AST) -> Iterator[_Use]:
        """What one statement or expression uses."""
        of = self.flow.of
        match node:
            case ast.For() | ast.AsyncFor():
                is_blind, numbers = all(map(self.is_blind, node.body)), is_numbering(node.body)
                reason = "numbers the members of a set" if numbers else "iterates over a set"
                weight = SILENT if is_blind else NUMBERS if numbers else LOOPS
                yield node, reason, weight, of(node.iter).order_depends_on
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                weight = self.matters(node)
                reason = "sums over a set" if weight == WEAK and self.is_summed(node) else "iterates over a set"
                for each in node.generators:
                    yield each.iter, reason, self.matters(each.iter), of(each.iter).order_depends_on
            case ast.YieldFrom():
                yield node, "iterates over a set", LOOPS, of(node.value).order_depends_on
            case ast.Starred(ctx=ast.Load()):
                yield node, "unpacks a set", self.matters(node.value), of(node.value).order_depends_on
            # A set with a single member has no order: `(only,) = found`.
            case ast.Tuple(ctx=ast.Store()) | ast.List(ctx=ast.Store()) if len(node.elts) > 1:
                yield node, "unpacks a set", LOOPS, of(node).order_depends_on
            case ast.AugAssign(op=ast.Add()):
                yield node, "extends a list by a set", LISTS, of(node.value).order_depends_on
            case ast.BinOp() if ADDRESSED in (of(node.left), of(node.right)):
                yield node, "computes with id()", NUMBERS, _ADDRESS
            case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE(), *_]) if ADDRESSED in (
                of(node.left),
                *map(of, node.comparators),
            ):
                yield node, "compares id()", NUMBERS, _ADDRESS
            case ast.Name(id="hash", ctx=ast.Load()) if self.is_builtin(node) and not self.source.is_called(node):
                yield node, "depends on hash()", NUMBERS, UNKNOWN.hash_depends_on
            case ast.Call():
                yield from self.at_call(node)

    def at_call(self, node: ast.Call) -> Iterator[_Use]:
        name, of = self.known_name(node), self.flow.of
        order = frozenset[str]().union(*(of(argument).order_depends_on for argument in node.args))
        if name in ("hash", "__hash__") and not self.source.qualname(node).endswith("__hash__"):
            # A class may well ask for the hash of a string to say what its own is.
            hashed = [node.func.value] if isinstance(node.func, ast.Attribute) else node.args
            depends_on = frozenset[str]().union(*(of(one).hash_depends_on for one in hashed))
            yield node, "depends on hash()", NUMBERS, depends_on
        elif name in ORDERING:
            reason = {"sum": "sums over a set"}.get(name, f"orders a set with {name}()")
            reason = f"leaves ties to the order of a set: {name}() with a key" if name in CHOOSING else reason
            yield node, reason, min(self.matters_to(node), ORDERING[name]), order
        if name == "pop" and isinstance(node.func, ast.Attribute):
            yield node, "takes a member of a set with pop()", LOOPS, of(node.func.value).order_depends_on
        if any(keyword.arg == "key" and self.gives_address(keyword.value) for keyword in node.keywords):
            yield node, "orders by id()", NUMBERS, _ADDRESS
        if name in HEAPS and any(ADDRESSED in map(of, _members(argument)) for argument in node.args):
            yield node, "orders by id()", NUMBERS, _ADDRESS
        if "seed" in name and ADDRESSED in map(of, node.args):
            yield node, "seeds with id()", NUMBERS, _ADDRESS

    # ---- what is called

    def is_builtin(self, node: ast.expr) -> bool:
        """Whether a name is the builtin, not redefined."""
        shape = self.flow.of(node)
        return shape.kind == "maker" and bool(shape.name)

    def known_name(self, node: ast.Call) -> str:
        """The name of a function that is not redefined, else nothing."""
        name, shape = last_name(node.func), self.flow.of(node.func)
        if shape.kind in ("function", "class"):
            return ""
        if isinstance(node.func, ast.Name):
            # Some other `map`.
            return "" if name in vars(builtins) and not self.is_builtin(node.func) else name
        if dotted(node.func) in _BLIND_IN_NUMPY or (name == "update" and self.is_set(node.func)):
            return "set"
        # Hardly any method is like its namesake, but `pool.map` is.
        return "" if name in vars(builtins) and name != "map" else name

    def is_set(self, function: ast.expr) -> bool:
        """Whether a method is one of a set."""
        return isinstance(function, ast.Attribute) and self.flow.of(function.value).kind == "set"

    def gives_address(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Lambda):
            return ADDRESSED in map(self.flow.of, _members(function.body))
        return isinstance(function, ast.Name) and function.id == "id" and self.is_builtin(function)

    def is_summed(self, node: ast.AST) -> bool:
        parent = self.source.parents[node]
        return isinstance(parent, ast.Call) and self.known_name(parent) == "sum"

    # ---- whether the order matters to anybody

    def matters(self, node: ast.AST) -> int:
        """How much the order of what an expression gives matters to what stands around it."""
        parent = self.source.parents[node]
        match parent:
            case ast.comprehension():
                made = self.source.parents[parent]
                return min(self.matters(made), _COMPREHENSIONS[type(made)])
            case ast.Set():
                return SILENT
            case ast.List() | ast.Tuple():
                return self.matters(parent) if isinstance(node, ast.Starred) else NUMBERS
            case ast.Starred():
                return min(self.matters(parent), LISTS)
            case ast.Compare(ops=operators):
                return SILENT if node is not parent.left and isinstance(operators[0], ast.In | ast.NotIn) else NUMBERS
            case ast.BinOp() | ast.BoolOp() | ast.IfExp() | ast.JoinedStr() | ast.FormattedValue() | ast.Await():
                return self.matters(parent)
            case ast.Assert():
                return SILENT if node is parent.msg else NUMBERS
            case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target):
                return SILENT if is_sorted_later(self.source, dotted(target), parent) else NUMBERS
            case ast.Call() if node in parent.args:
                return self.matters_to(parent)
        return NUMBERS

    def matters_to(self, call: ast.Call) -> int:
        """How much a function cares for the order of its arguments."""
        name = self.known_name(call)
        if isinstance(self.source.parents[call], ast.Raise):
            return SILENT
        if name in CHOOSING and _may_tie(call):
            return min(self.matters(call), WEAK) if name == "sorted" else WEAK
        if name in _BLIND or (name == "sum" and self.flow.of(call.args[0]).member == INT):
            return SILENT  # integers add up to the same, floats round in another way in another order
        if name == "sum":
            return WEAK
        is_passed_on = name in _KEEPING or (name in ORDERING and name not in _RANKING)
        return self.matters(call) if is_passed_on else NUMBERS

    def is_blind(self, node: ast.stmt) -> bool:
        """Whether a statement in a loop does the same in any order: fills sets, counts, checks."""
        match node:
            case (
                ast.Pass()
                | ast.Continue()
                | ast.Assert()
                | ast.Raise()
                | ast.Delete()
                | ast.Return(value=None | ast.Constant())
                | ast.AugAssign(op=ast.Add() | ast.Sub(), target=ast.Name(), value=ast.Constant())
                | ast.Expr(value=ast.Call(func=ast.Name(id="print")) | ast.Constant())
            ):
                return True
            case ast.If() | ast.For():
                return all(map(self.is_blind, [*node.body, *node.orelse]))
            case ast.AugAssign(op=ast.BitOr() | ast.BitAnd() | ast.Sub()):
                return self.flow.of(node.target).kind == "set"
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="append"))):
                return is_sorted_later(self.source, dotted(owner), node)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) as function)):
                return (name in _SET_CHANGES and self.is_set(function)) or name in _LOGGING | {"pop", "cancel"}
        return False


def _members(node: ast.expr) -> list[ast.expr]:
    """Those of a tuple that is written out, else the expression itself."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _may_tie(node: ast.Call) -> bool:
    """Whether a call sorts by a key that two members of a set may share."""
    keys = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
    if keys and isinstance(keys[0], ast.Lambda):
        names = {argument.arg for argument in keys[0].args.args}
        return not any(isinstance(part, ast.Name) and part.id in names for part in _members(keys[0].body))
    return bool(keys) and last_name(keys[0]) not in _TOTAL_KEYS and not isinstance(keys[0], ast.Constant)


def is_numbering(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop body deals out numbers: `ids[word] = len(ids)`, or stores under a counter."""
    nodes = [node for statement in body for node in walk(statement)]
    counters = {dotted(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Subscript()], value=ast.Name(id=name)) if name in counters:
                return True
            case (
                ast.Assign(targets=[ast.Subscript()], value=ast.Call(func=ast.Name(id="len")))
                | ast.Call(func=ast.Attribute(attr="setdefault"), args=[_, ast.Call(func=ast.Name(id="len"))])
            ):
                return True
    return False


def is_sorted_later(source: Source, name: str, after: ast.stmt) -> bool:
    """Whether, after a statement, nothing looks at the order of a list before it is sorted, if ever."""
    end, here = (after.end_lineno or 0, after.end_col_offset or 0), source.function_of(after)
    mentions = source.mentions(name)
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
            return "sorts" if isinstance(call, ast.Call) and not _may_tie(call) else "other"
        case ast.Attribute(attr="append" | "extend"):
            return "blind"
        case ast.Assign(value=ast.Call(func=ast.Name(id="sorted"), args=[first]) as call):
            return "sorts" if dotted(first) == dotted(mention) and not _may_tie(call) else "other"
        case ast.Call(func=ast.Name(id=name)) if name in _BLIND_BUILTINS:
            return "other" if _may_tie(parent) else "blind"
        case ast.Compare(ops=[ast.In() | ast.NotIn()]) if mention is not parent.left:
            return "blind"
    return "other"
