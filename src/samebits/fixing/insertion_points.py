"""Lines to insert at the start of a file: missing imports, a seed, a setting, a generator of the file's own."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.fixing.edits import Edit, EditableFile, NoCureError
from samebits.lint.source import Function, last_name

# Module → the alias that everybody gives it.
_ALIASES = {"numpy": "np"}
_SEED = re.compile(r"(?:[A-Z0-9]+_)?SEED", re.IGNORECASE)


@dataclass(frozen=True)
class Opening:
    """A line to insert at the start of a file, and the module that it needs.

    Attributes:
        line: the line; empty where only the module is needed.
        module: name of the module to import.
        below: number of the line below which it is inserted; 0: below the imports; -1: above them.
    """

    line: str
    module: str
    below: int = 0


def name_of(own: EditableFile, module: str) -> str:
    """Return the name by which a file calls a module, or will call it once it is imported; NoCureError if taken."""
    present = imported(own, module)
    if present:
        return present
    name = _ALIASES.get(module, module.partition(".")[0])
    if _is_bound(own, name):
        raise NoCureError(f"{name} is something else in this file than the module")
    return _ALIASES.get(module, module)


def imported(own: EditableFile, module: str) -> str:
    """Return the name by which a file calls a module that it imports at its top level; empty where it does not."""
    for node in own.source.tree.body:
        for alias in node.names if isinstance(node, ast.Import) else ():
            if alias.name == module and alias.asname:
                return alias.asname
            if not alias.asname and (alias.name == module or alias.name.startswith(f"{module}.")):
                return module
    return ""


def _is_bound(own: EditableFile, name: str) -> bool:
    """Whether a file binds a name to something other than the module of that name."""
    for node in ast.walk(own.source.tree):
        match node:
            case ast.Name(id=bound, ctx=ast.Store()) if bound == name:
                return True
            case ast.arg(arg=bound) | ast.FunctionDef(name=bound) | ast.ClassDef(name=bound) if bound == name:
                return True
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    is_module = isinstance(node, ast.Import) and alias.name.partition(".")[0] == name
                    if (alias.asname or alias.name).partition(".")[0] == name and not (is_module and not alias.asname):
                        return True
    return False


def opened(own: EditableFile, openings: Sequence[Opening]) -> list[Edit]:
    """Return the edits that insert openings: each line once, below the missing imports that it needs."""
    edits = list[Edit]()
    for below in sorted({opening.below for opening in openings}):
        here = [opening for opening in openings if opening.below == below]
        modules = dict.fromkeys(opening.module for opening in here)
        is_above = below < 0
        missing = [
            f"import {module}{f' as {_ALIASES[module]}' if module in _ALIASES else ''}"
            for module in modules
            if is_above or not imported(own, module)
        ]
        lines = [*dict.fromkeys(opening.line for opening in here if opening.line)]
        edits.append(_inserted(own, _above(own) if is_above else below or imports_end(own), missing, lines))
    return edits


def _inserted(own: EditableFile, below: int, imports: list[str], lines: list[str]) -> Edit:
    """Return the edit that inserts imports, or lines apart from an import above, below a line; 0: at the top."""
    if below == 0:
        body = own.source.tree.body
        start = own.offset(first_line(body[0]) if body else 1)
        return Edit(start, start, "".join(f"{line}\n" for line in [*imports, *lines]))
    at = own.end_of_line(below)
    blank = [""] if lines and _is_import(own, below) and not imports else []
    return Edit(at, at, "".join(f"\n{line}" for line in [*imports, *blank, *lines]))


def first_line(node: ast.stmt) -> int:
    """Return the line on which a statement begins; decorators are part of it."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _is_import(own: EditableFile, line: int) -> bool:
    return any(isinstance(one, ast.Import | ast.ImportFrom) and one.end_lineno == line for one in own.source.tree.body)


def _above(own: EditableFile) -> int:
    """Return the line on which the docstring and the imports from `__future__` end; 0 where there are none."""
    end = 0
    for node in own.source.tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")):
            break
        end = node.end_lineno or 0
    return _alone(own, end)


def imports_end(own: EditableFile) -> int:
    """Return the line on which the imports at the top of a file end, or else its docstring; 0 where it has neither."""
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
        has_import = any(isinstance(one, ast.Import | ast.ImportFrom) for one in inner)
        return has_import and all(isinstance(one, ast.Import | ast.ImportFrom | ast.Assign | ast.Pass) for one in inner)
    return isinstance(node, ast.Import | ast.ImportFrom)


def _alone(own: EditableFile, line: int) -> int:
    """Return a line as it is; NoCureError where code goes on from it into the next, so that nothing fits below."""
    if line and any(one.lineno == line and one.end_lineno != line for one in own.source.tree.body):
        raise NoCureError(f"line {line} holds more than one statement")
    if line and own.text[own.offset(line) : own.end_of_line(line)].rstrip().endswith("\\"):
        raise NoCureError(f"line {line} goes on in the next one")
    return line


def seed_constant(own: EditableFile) -> tuple[str, int]:
    """Return name and line of a number at the top of a file that is called a seed; `"", 0` where there is none."""
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


def block_of(own: EditableFile, line: int) -> tuple[list[ast.stmt], ast.stmt]:
    """Return the block and the plain statement in it that begins at a line; NoCureError where there is none."""
    for node in ast.walk(own.source.tree):
        for name in ("body", "orelse", "finalbody"):
            part: object = getattr(node, name, None)
            block: list[ast.stmt] = part if isinstance(part, list) else []
            for one in block:
                if one.lineno == line and not isinstance(one, Function | ast.ClassDef | ast.For | ast.While | ast.If):
                    return block, one
    raise NoCureError(f"no plain statement begins at line {line}")


def is_seed_name(name: str) -> bool:
    """Whether a name is that of a seed: `seed`, `SEED`, `data_seed`, `random_state`."""
    return bool(re.fullmatch(r"(.*_)?seed|seed_.*|manualseed|random_state|rngseed", name, re.IGNORECASE))


def call_name(node: ast.AST) -> str:
    """Return the last name of the function that a call calls; empty where the node is no call."""
    return last_name(node.func) if isinstance(node, ast.Call) else ""
