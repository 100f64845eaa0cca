"""Lines where the hash seed or addresses enter: the order of a set is used, `hash()` is called, or `id()` orders.

Iterating over a set leaves no trace at run time: where such a factor is known to matter, only the source can tell the
line. The order of a set that may hold strings changes from run to run. A use that ignores the order (`sorted`, `len`,
another set) is not reported, and neither are sets of numbers, whose hashes have no seed. Strings hash by the seed,
parameters and modules by their addresses, and values of unknown type may do either.
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

# Functions that ignore the order of their arguments, or only show it to people.
_BLIND_BUILTINS = {"sorted", "set", "frozenset", "len", "min", "max", "any", "all", "bool", "print"}
_LOGGING = {"debug", "info", "warning", "warn", "error", "exception"}
_SET_CHANGES = {"add", "discard", "remove", "update", "difference_update", "intersection_update"}
_BLIND = _BLIND_BUILTINS | _LOGGING
_BLIND |= {"union", "intersection", "difference", "symmetric_difference", "difference_update", "intersection_update"}
_BLIND |= {"isdisjoint", "issubset", "issuperset", "fsum", "isin", "nlargest", "nsmallest"}
_BLIND_IN_NUMPY = {"np.unique", "np.sort", "numpy.unique", "numpy.sort"}
CHOOSING = {"sorted", "min", "max", "nlargest", "nsmallest"}  # blind, unless a key lets members tie
_TOTAL_KEYS = {"str", "repr", "int", "float", "ord", "fspath", "index"}
# Functions that return their argument.
_KEEPING = {"copy", "deepcopy", "tqdm", "track"}
# Function that depends on order → weight. An outer call may undo that, as in `sorted(list(words))`, but of `_RANKING`.
ORDERING = {
    **dict.fromkeys(["list", "tuple", "enumerate", "zip", "zip_longest"], NUMBERS),
    **dict.fromkeys(["accumulate", "combinations", "deque", "extend", "fromiter", "islice", "permutations"], LISTS),
    **dict.fromkeys(["chain", "cycle", "dict", "filter", "from_iterable", "fromkeys", "imap", "iter", "join"], LOOPS),
    **dict.fromkeys(["map", "product", "reduce", "starmap", "writelines"], LOOPS),
    **dict.fromkeys(["clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector"], NUMBERS),
    **dict.fromkeys(["str", "repr", "sum", *CHOOSING], WEAK),
}
# Functions that order what is put into them by its value; tuples go by their first members that differ.
HEAPS = {"heappush", "heappushpop", "heapreplace", "insort", "insort_left", "insort_right", "put", "put_nowait"}
_RANKING = {"enumerate", "zip", "zip_longest", "islice"}
_RANKING |= {"accumulate", "combinations", "permutations", "cycle", "reduce"}
_COMPREHENSIONS = {ast.SetComp: SILENT, ast.ListComp: LISTS, ast.GeneratorExp: LOOPS, ast.DictComp: LOOPS}
# Nodes that may use an order or an address; so may the name `hash`.
_USING = (ast.For, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.YieldFrom, ast.Starred)
_USING += (ast.Tuple, ast.List, ast.AugAssign, ast.BinOp, ast.Compare, ast.Call)  # type: ignore[assignment]
_ADDRESS = frozenset({ADDRESS})

# The node of a use, the reason, its weight, and the factors on which it depends.
_Use = tuple[ast.AST, str, int, frozenset[str]]


def find_hash_order(paths: Iterable[str | Path]) -> list[Finding]:
    """Return lines that depend on hashes or addresses, likeliest first, then by path and line; one finding a line.

    Files that cannot be read or parsed are skipped. Files that import each other are best given together.
    """
    sources = read_sources(paths)
    flow, best = Flow(sources), dict[tuple[str, int], Finding]()
    findings = [finding for source in sources for _, finding in uses_in(source, flow)]
    for finding in sorted(findings, key=lambda finding: (-finding.weight, finding.path, finding.line)):
        best.setdefault((finding.path, finding.line), finding)
    return [*best.values()]


def uses_in(source: Source, flow: Flow) -> Iterator[tuple[ast.AST, Finding]]:
    """The uses of orders, hashes and addresses in a file that may matter, each with its node."""
    uses = _Uses(source, flow)
    for node in (*source.named["hash"], *source.every(*_USING)):
        for user, reason, weight, depends_on in uses.at(node):
            if weight > SILENT and depends_on:
                yield user, Finding.at(source, user, reason, weight, depends_on)


def iterated_by(node: ast.AST) -> Sequence[ast.expr]:
    """Return the expressions whose members a node takes in their order."""
    match node:
        case ast.For(iter=taken) | ast.AsyncFor(iter=taken) | ast.comprehension(iter=taken):
            return [taken]
        case ast.Starred(value=taken) | ast.YieldFrom(value=taken) | ast.AugAssign(op=ast.Add(), value=taken):
            return [taken]
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=taken):
            return [taken]
        case ast.Call(args=args) if last_name(node.func) in {*ORDERING, "reversed", "array", "tensor"}:
            return args
    return []


class _Uses:
    """The uses of the order of sets, of hashes and of addresses in a file."""

    def __init__(self, source: Source, flow: Flow) -> None:
        self.source, self.flow = source, flow

    def at(self, node: ast.AST) -> Iterator[_Use]:
        """The uses of an order, a hash or an address by a single statement or expression."""
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
            # The `__hash__` of a class may well hash a string, so it is left out.
            hashed = [node.func.value] if isinstance(node.func, ast.Attribute) else node.args
            depends_on = frozenset[str]().union(*(of(value).hash_depends_on for value in hashed))
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
        """Whether a name stands for the builtin, and is not redefined."""
        shape = self.flow.of(node)
        return shape.kind == "maker" and bool(shape.name)

    def known_name(self, node: ast.Call) -> str:
        """Return the name of a called function that is known by it; empty where the name may mean another function."""
        name, shape = last_name(node.func), self.flow.of(node.func)
        if shape.kind in ("function", "class"):
            return ""
        if isinstance(node.func, ast.Name):
            # A redefined builtin, such as some other `map`.
            return "" if name in vars(builtins) and not self.is_builtin(node.func) else name
        if dotted(node.func) in _BLIND_IN_NUMPY or (name == "update" and self.is_set(node.func)):
            return "set"
        # A method rarely does what the builtin of the same name does, but `pool.map` does.
        return "" if name in vars(builtins) and name != "map" else name

    def is_set(self, function: ast.expr) -> bool:
        """Whether a function is a method of a set."""
        return isinstance(function, ast.Attribute) and self.flow.of(function.value).kind == "set"

    def gives_address(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Lambda):
            return ADDRESSED in map(self.flow.of, _members(function.body))
        return isinstance(function, ast.Name) and function.id == "id" and self.is_builtin(function)

    def is_summed(self, node: ast.AST) -> bool:
        parent = self.source.parents[node]
        return isinstance(parent, ast.Call) and self.known_name(parent) == "sum"

    # ---- whether the order matters

    def matters(self, node: ast.AST) -> int:
        """Return the weight that the order of an expression's members has for the code around it."""
        parent = self.source.parents[node]
        match parent:
            case ast.comprehension():
                outer = self.source.parents[parent]
                return min(self.matters(outer), _COMPREHENSIONS[type(outer)])
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
        """Return the weight that the order of a call's arguments has for the called function."""
        name = self.known_name(call)
        if isinstance(self.source.parents[call], ast.Raise):
            return SILENT
        if name in CHOOSING and _may_tie(call):
            return min(self.matters(call), WEAK) if name == "sorted" else WEAK
        if name in _BLIND or (name == "sum" and call.args and self.flow.of(call.args[0]).member == INT):
            return SILENT  # integers add up to the same in every order, floats are rounded differently in each
        if name == "sum":
            return WEAK
        is_passed_on = name in _KEEPING or (name in ORDERING and name not in _RANKING)
        return self.matters(call) if is_passed_on else NUMBERS

    def is_blind(self, node: ast.stmt) -> bool:
        """Whether a statement in a loop has the same effect in every order: fills sets, counts, checks."""
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
    """Return the members of a tuple that is written out, else the expression itself."""
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _may_tie(node: ast.Call) -> bool:
    """Whether a call orders by a key that two members of a set may share."""
    keys = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
    if keys and isinstance(keys[0], ast.Lambda):
        names = {argument.arg for argument in keys[0].args.args}
        return not any(isinstance(part, ast.Name) and part.id in names for part in _members(keys[0].body))
    return bool(keys) and last_name(keys[0]) not in _TOTAL_KEYS and not isinstance(keys[0], ast.Constant)


def is_numbering(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop body numbers things: `ids[word] = len(ids)`, or `ids[word] = number` with a counter."""
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
    """Whether a list is sorted after a statement, before anything else depends on its order, or nothing ever does."""
    end, here = (after.end_lineno or 0, after.end_col_offset or 0), source.function_of(after)
    mentions = source.mentions(name)
    nearby = [node for node in mentions if source.function_of(node) is here]
    later = [_use_of(source, node) for node in nearby if (node.lineno, node.col_offset) >= end]
    telling = [use for use in later if use != "blind"]
    if telling:
        return telling[0] == "sorts"
    return bool(later) and all(_use_of(source, node) == "blind" for node in mentions if node not in nearby)


def _use_of(source: Source, mention: ast.expr) -> str:
    """Return `sorts` where a mention of a list sorts it, `blind` where its order does not matter, else `other`."""
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
