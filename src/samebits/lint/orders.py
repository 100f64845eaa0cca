"""Where files use the order of sets, hashes or addresses: what four rules ask, each for its own kind of use.

To know what an expression may be, a whole file is read several times over; that is done only where names and calls
show that something may be found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from samebits.lint.findings import Finding
from samebits.lint.hash_order import CHOOSING, ORDERING, taken_by, uses_in
from samebits.lint.project import Project, remembered
from samebits.lint.source import Source, last_name

_HOLDING = {"set", "frozenset", "defaultdict", "dict", "copy", "deepcopy", "setdefault", "get", "append", "field"}
_SET_NAMES = {"set", "frozenset", "Set", "FrozenSet", "AbstractSet"}
# What they make is found by keys, or is one thing: the order is lost, or somebody else's business.
_UNORDERED = {"dict", "fromkeys", "join", "str", "repr", "writelines", "hash", "id", *CHOOSING}
_NAMES = re.compile(r"seed|bucket|fold|split", re.IGNORECASE)


def sets_taken(node: ast.AST) -> Sequence[ast.expr]:
    """What may be the set whose order is used there; none where it is lost, or somebody else's business."""
    if isinstance(node, ast.Call):
        return [] if last_name(node.func) in _UNORDERED else [node, *node.args]
    return taken_by(node) or ([node] if isinstance(node, ast.expr) else [])


@remembered
def set_orders(project: Project, source: Source) -> list[tuple[ast.AST, Finding]]:
    """The uses of such orders in a file, each with its place, knowing the files that it imports."""
    imports = sorted(project.imports_of(source), key=lambda one: one.path)
    names = {one: _set_names(project, one) for one in (source, *imports)}
    ordered = {last_name(part) for part in _ordered(source, set[str]().union(*names.values()))}
    others = [one for one in imports if ordered & names[one]]
    is_worth_it = ordered or source.words & {"hash", "id", "wait"}
    return [*uses_in(source, project.flow(source, *others))] if is_worth_it else []


def _ordered(source: Source, known: set[str]) -> Iterator[ast.AST]:
    """Whatever makes a set, or is called as one is, where something takes its members in their order."""
    made = [*source.every(ast.Set, ast.SetComp)]
    made += [one for name in {*_SET_NAMES, *known} for one in source.named[name]]
    for part in made:
        inner: ast.AST = part
        for outer in source.around(part):
            is_ordering = isinstance(outer, ast.Call) and last_name(outer.func) in ORDERING
            if is_ordering or inner in taken_by(outer):
                yield part
            if isinstance(outer, ast.stmt):
                break
            inner = outer


def is_number(source: Source, node: ast.AST) -> bool:
    """Whether it is taken modulo something, or is part of what seeds."""
    for one in (node, *source.around(node)):
        match one:
            case ast.BinOp(op=ast.Mod() | ast.BitAnd()):
                return True
            case ast.Call() if one is not node and "seed" in last_name(one.func).lower():
                return True
            case ast.Assign(targets=[target]):
                return bool(_NAMES.search(last_name(target)))
            case ast.stmt():
                return False
    return False


@remembered
def _set_names(project: Project, source: Source) -> set[str]:
    """What may stand for a set, or hold one: what is assigned one, and functions that give one."""
    names, made = set[str](), [*source.every(ast.Set, ast.SetComp)]
    made += [one for name in _SET_NAMES for one in source.named[name]]
    for one in made:
        inner: ast.AST = one
        for outer in source.around(one):
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
    for given in source.every(ast.Return):
        if given.value is not None and last_name(given.value) in names:
            names.add(getattr(source.function_of(given), "name", ""))
    return names - {""}
