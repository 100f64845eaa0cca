"""Listings of folders whose order is used, though they have none."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from samebits.lint.findings import Finding, Findings
from samebits.lint.order_flow import OrderTracker
from samebits.lint.project import Project, value_of
from samebits.lint.source import Source, last_name, owner_of, walk

_FUNCTIONS = ("os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob")
# The `glob` of objects with such names lists in no order; file systems of other libraries have a `glob` that sorts.
_PATH = re.compile(r"path|dir|root|folder|/", re.IGNORECASE)
_METHODS = ("iterdir", "rglob", "glob")


def listings(project: Project, source: Source, kind: str) -> Findings:
    """The unsorted listings whose order has one kind of use: order, slice, or zip with another listing."""
    pairs = defaultdict[ast.AST, dict[ast.AST, Finding]](dict)
    for call in _calls(source):
        uses = [] if _is_walked_in_order(source, call) else OrderTracker(project).uses(source, call)
        for use in uses:
            finding = Finding.at(source, call, f"lists files in no order, and that {use.how}")
            if use.call is not None:
                pairs[use.call][call] = finding
            elif use.kind == kind == uses[0].kind or (use.kind == kind and uses[0].call is not None):
                yield finding
                break
    for findings in pairs.values() if kind == "zip" else ():
        yield from findings.values() if len(findings) > 1 else ()


def _is_path(source: Source, node: ast.expr) -> bool:
    return bool(_PATH.search(ast.unparse(node))) or ast.unparse(value_of(source, node)).startswith(
        ("Path(", "pathlib.")
    )


def _is_walked_in_order(source: Source, call: ast.Call) -> bool:
    """Whether a loop over `os.walk` sorts the folders and the files itself."""
    loop = source.parents[call]
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple):
        return False
    names = {last_name(element) for element in loop.target.elts[1:]}
    parts = [part for statement in loop.body for part in walk(statement)]
    sorted_names = {last_name(part.value) for part in parts if isinstance(part, ast.Attribute) and part.attr == "sort"}
    calls = [part for part in parts if isinstance(part, ast.Call) and last_name(part.func) == "sorted" and part.args]
    return names <= sorted_names | {last_name(call.args[0]) for call in calls}


def _calls(source: Source) -> Iterator[ast.Call]:
    """The calls that list a folder."""
    for name in _FUNCTIONS:
        yield from source.calls[name]
    for name in _METHODS:
        for call in source.methods[name]:
            owner = owner_of(call)
            is_path = owner is not None and (name != "glob" or _is_path(source, owner))
            if is_path and not source.qualified(call.func).startswith("glob."):
                yield call
