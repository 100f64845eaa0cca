"""Lines that belong at the start of a file: an import that is missing, a seed, a setting, a stream of its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.fixing.edits import Edit, NoCureError, Original
from samebits.lint.source import Function, last_name

# What everybody calls it.
_ALIASES = {"numpy": "np"}
_SEED = re.compile(r"(?:[A-Z0-9]+_)?SEED", re.IGNORECASE)


@dataclass(frozen=True)
class Opening:
    """A line that belongs below the imports of a file.

    Attributes:
        line: empty where only the module is needed.
        module: that is needed.
        below: the line of the file below which it belongs; 0: below the imports; -1: above them.
    """

    line: str
    module: str
    below: int = 0


def name_of(own: Original, module: str) -> str:
    """What a file calls a module, or will call it once it is imported."""
    known = imported(own, module)
    if known:
        return known
    name = _ALIASES.get(module, module.partition(".")[0])
    if _is_bound(own, name):
        raise NoCureError(f"{name} is something else in this file than the module")
    return _ALIASES.get(module, module)


def imported(own: Original, module: str) -> str:
    """What a file calls a module that it imports at its top level; empty where it does not."""
    for node in own.source.tree.body:
        for alias in node.names if isinstance(node, ast.Import) else ():
            if alias.name == module and alias.asname:
                return alias.asname
            if not alias.asname and (alias.name == module or alias.name.startswith(f"{module}.")):
                return module
    return ""


def _is_bound(own: Original, name: str) -> bool:
    """Whether a name stands for something in a file, other than the module."""
    for node in ast.walk(own.source.tree):
        match node:
            case ast.Name(id=found, ctx=ast.Store()) if found == name:
                return True
            case ast.arg(arg=found) | ast.FunctionDef(name=found) | ast.ClassDef(name=found) if found == name:
                return True
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    is_module = isinstance(node, ast.Import) and alias.name.partition(".")[0] == name
                    if (alias.asname or alias.name).partition(".")[0] == name and not (is_module and not alias.asname):
                        return True
    return False


def opened(own: Original, openings: Sequence[Opening]) -> list[Edit]:
    """The edits that put lines where they belong, each once, with the imports that they need above them."""
    edits = list[Edit]()
    for below in sorted({one.below for one in openings}):
        here = [one for one in openings if one.below == below]
        modules = dict.fromkeys(one.module for one in here)
        is_above = below < 0
        missing = [
            f"import {module}{f' as {_ALIASES[module]}' if module in _ALIASES else ''}"
            for module in modules
            if is_above or not imported(own, module)
        ]
        lines = [*dict.fromkeys(one.line for one in here if one.line)]
        edits.append(_inserted(own, _above(own) if is_above else below or imports_end(own), missing, lines))
    return edits


def _inserted(own: Original, below: int, imports: list[str], lines: list[str]) -> Edit:
    """Lines below another one, apart from what is not an import."""
    if below == 0:
        body = own.source.tree.body
        start = own.offset(first_line(body[0]) if body else 1)
        return Edit(start, start, "".join(f"{line}\n" for line in [*imports, *lines]))
    at = own.end_of_line(below)
    apart = [""] if lines and _is_import(own, below) and not imports else []
    return Edit(at, at, "".join(f"\n{line}" for line in [*imports, *apart, *lines]))


def first_line(node: ast.stmt) -> int:
    """Where a statement begins, its decorators among it."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _is_import(own: Original, line: int) -> bool:
    return any(isinstance(one, ast.Import | ast.ImportFrom) and one.end_lineno == line for one in own.source.tree.body)


def _above(own: Original) -> int:
    """The line below which imports begin: the end of the docstring, or of what comes from `__future__`; 0: none."""
    end = 0
    for node in own.source.tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")):
            break
        end = node.end_lineno or 0
    return _alone(own, end)


def imports_end(own: Original) -> int:
    """The line with which the imports at the top of a file end; 0 where it begins otherwise."""
    end = _above(own)
    for node in own.source.tree.body:
        if (node.end_lineno or 0) <= end:
            continue
        if not _only_imports(node):
            break
        end = node.end_lineno or 0
    return _alone(own, end)


def _only_imports(node: ast.stmt) -> bool:
    if isinstance(node, ast.Try | ast.If):
        inner = [*node.body, *node.orelse, *(each for one in getattr(node, "handlers", []) for each in one.body)]
        has_one = any(isinstance(one, ast.Import | ast.ImportFrom) for one in inner)
        return has_one and all(isinstance(one, ast.Import | ast.ImportFrom | ast.Assign | ast.Pass) for one in inner)
    return isinstance(node, ast.Import | ast.ImportFrom)


def _alone(own: Original, line: int) -> int:
    """The line, if nothing goes on behind it."""
    if line and any(one.lineno == line and one.end_lineno != line for one in own.source.tree.body):
        raise NoCureError(f"line {line} holds more than one statement")
    if line and own.text[own.offset(line) : own.end_of_line(line)].rstrip().endswith("\\"):
        raise NoCureError(f"line {line} goes on in the next one")
    return line


def seed_constant(own: Original) -> tuple[str, int]:
    """Name and line of a number at the top of a file that is called a seed; nothing where there is none."""
    for node in own.source.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(value))) if _SEED.fullmatch(name):
                if type(value) is int and 0 <= value < 2**32:
                    return name, node.end_lineno or 0
            case ast.Import() | ast.ImportFrom() | ast.Assign() | ast.AnnAssign() | ast.Expr():
                continue
            case _:
                break
    return "", 0


def block_of(own: Original, line: int) -> tuple[list[ast.stmt], ast.stmt]:
    """The innermost statement that begins at a line, and the statements that it is one of."""
    for node in ast.walk(own.source.tree):
        for name in ("body", "orelse", "finalbody"):
            own_block: object = getattr(node, name, None)
            block: list[ast.stmt] = own_block if isinstance(own_block, list) else []
            for one in block:
                if one.lineno == line and not isinstance(one, Function | ast.ClassDef | ast.For | ast.While | ast.If):
                    return block, one
    raise NoCureError(f"no plain statement begins at line {line}")


def is_seed_name(name: str) -> bool:
    """Whether something is called a seed: `seed`, `SEED`, `data_seed`, `random_state`."""
    return bool(re.fullmatch(r"(.*_)?seed|seed_.*|manualseed|random_state|rngseed", name, re.IGNORECASE))


def call_name(node: ast.AST) -> str:
    """The last name of what is called; empty where nothing is."""
    return last_name(node.func) if isinstance(node, ast.Call) else ""
