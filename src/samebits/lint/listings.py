"""Listings of folders whose order is used."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from samebits.lint.findings import Finding, Findings
from samebits.lint.following import Following
from samebits.lint.project import Project, value_of
from samebits.lint.source import Source, last_name, owner_of, walk

_FUNCTIONS = ("os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob")
# What is called so has a method `glob`; file systems of other libraries have one, too, which sorts.
_PATH = re.compile(r"path|dir|root|folder|/", re.IGNORECASE)
_METHODS = ("iterdir", "rglob", "glob")


def listings(project: Project, source: Source, kind: str) -> Findings:
    """Unsorted listings by what their order is used for: order, slice, or zip with another one."""
    pairs = defaultdict[ast.AST, dict[ast.AST, Finding]](dict)
    for call in _calls(source):
        uses = [] if _is_walked_in_order(source, call) else Following(project).uses(source, call)
        for use in uses:
            finding = Finding.at(source, call, f"lists files in no order, and that {use.how}")
            if use.call is not None:
                pairs[use.call][call] = finding
            elif use.kind == kind == uses[0].kind or (use.kind == kind and uses[0].call is not None):
                yield finding
                break
    for found in pairs.values() if kind == "zip" else ():
        yield from found.values() if len(found) > 1 else ()


def _is_path(source: Source, node: ast.expr) -> bool:
    return bool(_PATH.search(ast.unparse(node))) or ast.unparse(value_of(source, node)).startswith(
        ("Path(", "pathlib.")
    )


def _is_walked_in_order(source: Source, call: ast.Call) -> bool:
    """Whether a loop over `os.walk` puts the folders and the files in order itself."""
    loop = source.parents[call]
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple):
        return False
    names = {last_name(one) for one in loop.target.elts[1:]}
    parts = [part for statement in loop.body for part in walk(statement)]
    put = {last_name(one.value) for one in parts if isinstance(one, ast.Attribute) and one.attr == "sort"}
    calls = [one for one in parts if isinstance(one, ast.Call) and last_name(one.func) == "sorted" and one.args]
    return names <= put | {last_name(one.args[0]) for one in calls}


def _calls(source: Source) -> Iterator[ast.Call]:
    """What lists a folder."""
    for name in _FUNCTIONS:
        yield from source.calls[name]
    for name in _METHODS:
        for call in source.methods[name]:
            owner = owner_of(call)
            is_path = owner is not None and (name != "glob" or _is_path(source, owner))
            if is_path and not source.qualified(call.func).startswith("glob."):
                yield call
