"""Hashes, addresses, and the orders of sets, which depend on them; each rule reports its own kind of use.

To know the shapes of expressions, a whole file is read several times over. That is done only where names and calls
show that something may be found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from samebits.lint.findings import ADDRESS, LOOPS, SEED, WEAK, Finding, Findings
from samebits.lint.hash_order import CHOOSING, ORDERING, iterated_by, uses_in
from samebits.lint.order_flow import order_uses
from samebits.lint.project import Project, is_parameter, is_type_tested, memoized
from samebits.lint.rule import rule
from samebits.lint.source import Source, last_name

_REASON = re.compile(r"\bhash\(\)|\bid\(\)")


@rule("SB108", "error", factors=("hash-seed", "memory-addresses"), fix="unsafe", cure="hash-seed")
def hash_as_number(project: Project, source: Source) -> Findings:
    """`hash()` of a string, or `id()`, becomes a number that matters.

    Strings hash with a seed that is new in every process, and addresses are new as well: buckets, splits and seeds made
    of them differ in every run.

        part = "test" if hash(row["name"]) % 5 == 0 else "train"

    A checksum is the same everywhere:

        part = "test" if zlib.crc32(row["name"].encode()) % 5 == 0 else "train"
    """
    # Hashes and addresses that are taken modulo something, that seed, or that order.
    for node, use in _set_orders(project, source):
        # Most tuples hold numbers, so that their hash is the same everywhere.
        hashed = node.args[0] if isinstance(node, ast.Call) and node.args else None
        is_vague = ADDRESS in use.depends_on and (
            isinstance(hashed, ast.Tuple) or (isinstance(hashed, ast.Call) and last_name(hashed.func) == "tuple")
        )
        if use.reason == "orders by id()" or (_is_number(source, node) and not is_vague and _REASON.search(use.reason)):
            yield use


@rule("SB202", "error", factors=("hash-seed",), fix="safe")
def set_used(project: Project, source: Source) -> Findings:
    """The order of a set of strings becomes numbers, a list, or steps of a loop.

    Strings hash with a seed that is new in every process, so the order of a set of them is, too: labels, vocabularies
    and batches come out otherwise. With PYTHONHASHSEED held, six runs agreed.

        words = set(text.split())
        ids = {word: number for number, word in enumerate(words)}

    Put it in order:

        words = set(text.split())
        ids = {word: number for number, word in enumerate(sorted(words))}
    """
    # Sets whose order reaches numbers, an index, a split, a stack, a dataset or a training loop.
    for node, finding in _set_orders(project, source):
        if SEED in finding.depends_on and finding.weight > WEAK:
            sets = [
                one for one in _sets_taken(node) if not is_parameter(source, one) and not is_type_tested(source, one)
            ]
            uses = [use for one in sets for use in order_uses(project, source, one, of="set")]
            if uses:
                yield replace(finding, reason=f"{finding.reason}, and that {uses[0].how}")


@rule("SB203", "error", factors=("memory-addresses",), fix="safe")
def set_of_objects(project: Project, source: Source) -> Findings:
    """Parameters, modules or tensors are put into a set.

    They hash by their addresses, which no variable holds still: the order of `set(model.parameters())` differed in each
    of six runs, with and without PYTHONHASHSEED, and with it sums such as the norm of gradients.

        params = set(model.parameters())
        torch.nn.utils.clip_grad_norm_(params, 1.0)

    A dict keeps the order in which it was filled, and holds each once:

        params = dict.fromkeys(model.parameters())
        torch.nn.utils.clip_grad_norm_(params, 1.0)
    """
    # Uses of the order of sets whose members hash by their addresses.
    for _, use in _set_orders(project, source):
        if use.depends_on == {ADDRESS} and use.weight >= LOOPS and "a set" in use.reason:
            yield use


@rule("SB204", "warning", factors=("hash-seed",), fix="safe")
def set_summed(project: Project, source: Source) -> Findings:
    """Numbers are added up in the order of a set.

    Each order rounds otherwise: the last bits of a sum over a set of words differed from run to run.

        total = sum(weight[word] for word in set(text.split()))

    In order, or exactly, with `math.fsum`:

        total = sum(weight[word] for word in sorted(set(text.split())))
    """
    # Sums over values that are looked up, or computed, for the members of a set.
    for node, use in _set_orders(project, source):
        # Numbers hash alike in every run, so a set of them has one order: it must be known to hold something else.
        is_of_numbers = isinstance(node, ast.Call) and last_name(node.func) == "sum" and SEED in use.depends_on
        if "sums" in use.reason and len(use.depends_on) == 1 and not is_of_numbers:
            yield use


# ---- uses that the rules share

_HOLDING = {"set", "frozenset", "defaultdict", "dict", "copy", "deepcopy", "setdefault", "get", "append", "field"}
_SET_NAMES = {"set", "frozenset", "Set", "FrozenSet", "AbstractSet"}
# Functions whose result is looked up by keys, or is one value: the order is lost, or for another rule to report.
_UNORDERED = {"dict", "fromkeys", "join", "str", "repr", "writelines", "hash", "id", *CHOOSING}
_NAMES = re.compile(r"seed|bucket|fold|split", re.IGNORECASE)


def _sets_taken(node: ast.AST) -> Sequence[ast.expr]:
    """Return what may be the set whose order a node uses; nothing where the order is lost, or for another rule."""
    if isinstance(node, ast.Call):
        return [] if last_name(node.func) in _UNORDERED else [node, *node.args]
    return iterated_by(node) or ([node] if isinstance(node, ast.expr) else [])


@memoized
def _set_orders(project: Project, source: Source) -> list[tuple[ast.AST, Finding]]:
    """Return the uses in a file, each with its node, with data flow from the files that it imports."""
    imports = sorted(project.imports_of(source), key=lambda one: one.path)
    names = {file: _set_names(project, file) for file in (source, *imports)}
    ordered = {last_name(part) for part in _ordered(source, set[str]().union(*names.values()))}
    others = [file for file in imports if ordered & names[file]]
    is_worth_it = ordered or source.words & {"hash", "id", "wait"}
    return [*uses_in(source, project.flow(source, *others))] if is_worth_it else []


def _ordered(source: Source, known: set[str]) -> Iterator[ast.AST]:
    """The expressions that make a set, or are named like one, where something takes their members in order."""
    sets = [*source.every(ast.Set, ast.SetComp)]
    sets += [node for name in {*_SET_NAMES, *known} for node in source.named[name]]
    for part in sets:
        inner: ast.AST = part
        for outer in source.ancestors(part):
            is_ordering = isinstance(outer, ast.Call) and last_name(outer.func) in ORDERING
            if is_ordering or inner in iterated_by(outer):
                yield part
            if isinstance(outer, ast.stmt):
                break
            inner = outer


def _is_number(source: Source, node: ast.AST) -> bool:
    """Whether a node is taken modulo something, seeds, or is assigned to a name that speaks of seeds or splits."""
    for outer in (node, *source.ancestors(node)):
        match outer:
            case ast.BinOp(op=ast.Mod() | ast.BitAnd()):
                return True
            case ast.Call() if outer is not node and "seed" in last_name(outer.func).lower():
                return True
            case ast.Assign(targets=[target]):
                return bool(_NAMES.search(last_name(target)))
            case ast.stmt():
                return False
    return False


@memoized
def _set_names(project: Project, source: Source) -> set[str]:
    """Return the names that may stand for a set or hold one: of variables, parameters and functions that return one."""
    names, sets = set[str](), [*source.every(ast.Set, ast.SetComp)]
    sets += [node for name in _SET_NAMES for node in source.named[name]]
    for part in sets:
        inner: ast.AST = part
        for outer in source.ancestors(part):
            match outer:
                case ast.Call() if inner in outer.args and last_name(outer.func) not in _HOLDING:
                    break
                case ast.comprehension() | ast.Compare():
                    break
                case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                    names |= {*map(last_name, outer.targets if isinstance(outer, ast.Assign) else [outer.target])}
                case ast.arg():
                    names.add(outer.arg)
                case ast.Return():
                    names.add(getattr(source.function_of(outer), "name", ""))
            inner = outer
    for node in source.every(ast.Return):
        if node.value is not None and last_name(node.value) in names:
            names.add(getattr(source.function_of(node), "name", ""))
    return names - {""}
