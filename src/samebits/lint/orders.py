"""Uses of the order of sets, of hashes and of addresses in files; each of four rules reports its own kind of use.

To know the shapes of expressions, a whole file is read several times over. That is done only where names and calls
show that something may be found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from samebits.lint.findings import Finding
from samebits.lint.hash_order import CHOOSING, ORDERING, iterated_by, uses_in
from samebits.lint.project import Project, memoized
from samebits.lint.source import Source, last_name

_HOLDING = {"set", "frozenset", "defaultdict", "dict", "copy", "deepcopy", "setdefault", "get", "append", "field"}
_SET_NAMES = {"set", "frozenset", "Set", "FrozenSet", "AbstractSet"}
# Functions whose result is looked up by keys, or is one value: the order is lost, or for another rule to report.
_UNORDERED = {"dict", "fromkeys", "join", "str", "repr", "writelines", "hash", "id", *CHOOSING}
_NAMES = re.compile(r"seed|bucket|fold|split", re.IGNORECASE)


def sets_taken(node: ast.AST) -> Sequence[ast.expr]:
    """Return what may be the set whose order a node uses; nothing where the order is lost, or for another rule."""
    if isinstance(node, ast.Call):
        return [] if last_name(node.func) in _UNORDERED else [node, *node.args]
    return iterated_by(node) or ([node] if isinstance(node, ast.expr) else [])


@memoized
def set_orders(project: Project, source: Source) -> list[tuple[ast.AST, Finding]]:
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


def is_number(source: Source, node: ast.AST) -> bool:
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
