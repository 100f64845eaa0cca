"""Where a file imports what, and lines to insert below that: missing imports, a seed, a setting, a generator."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.fixing.edits import Edit, EditableFile, NoCureError
from samebits.lint.source import Function, Source, last_name

# Module → the alias that everybody gives it.
_ALIASES = {"numpy": "np"}


@dataclass(frozen=True)
class Opening:
    """A line to insert below another one at the top level of a file, and the module that it needs.

    Attributes:
        line: the line; empty where only the module is needed.
        module: name of the module to import.
        below: number of the line below which it is inserted; 0: at the top of the file.
    """

    line: str
    module: str
    below: int


def module_at(own: EditableFile, node: ast.AST, module: str) -> tuple[str, Opening]:
    """Return the name of a module where a node stands, and the opening that imports it if no line above does."""
    below = above_imports(own.source)
    for one in own.source.tree.body:
        if one is node or one in own.source.ancestors(node):
            break
        below = max(below, one.end_lineno or 0) if only_imports(one) else below
    if module not in sys.stdlib_module_names and import_of(own.source, module)[1] > below:
        raise NoCureError(f"{module} is imported only below")
    return name_of(own, module, below), Opening("", module, below)


def name_of(own: EditableFile, module: str, below: int) -> str:
    """Return the name by which a file calls a module below a line, once it is imported there; NoCureError if taken."""
    present, line = import_of(own.source, module, below)
    stars = [node.lineno for node in own.source.every(ast.ImportFrom) if node.names[0].name == "*"]
    name = _ALIASES.get(module, module.partition(".")[0])
    if any(star > line for star in stars) or (not present and is_bound(own.source, module, name)):
        raise NoCureError(f"{name} is something else in this file than the module, or may be")
    return present or _ALIASES.get(module, module)


def opened(own: EditableFile, openings: Sequence[Opening]) -> list[Edit]:
    """Return the edits that insert openings: each line once, below the missing imports that it needs."""
    edits, added = list[Edit](), set[str]()
    for below in sorted({opening.below for opening in openings}):
        here = [opening for opening in openings if opening.below == below]
        modules = [one for one in dict.fromkeys(opening.module for opening in here) if one not in added]
        missing = [module for module in modules if not import_of(own.source, module, below)[0]]
        added |= {*missing}
        imports = [f"import {one}{f' as {_ALIASES[one]}' if one in _ALIASES else ''}" for one in missing]
        lines = [*dict.fromkeys(opening.line for opening in here if opening.line)]
        edits += [_inserted(own, below, imports, lines)] if imports or lines else []
    return edits


def _inserted(own: EditableFile, below: int, imports: list[str], lines: list[str]) -> Edit:
    """Return the edit that inserts imports, or lines apart from an import above, below a line; 0: at the top."""
    if below == 0:
        body = own.source.tree.body
        start = own.offset(first_line(body[0]) if body else 1)
        return Edit(start, start, "".join(f"{line}\n" for line in [*imports, *lines]))
    body = own.source.tree.body
    if any(one.lineno == below and one.end_lineno != below for one in body):
        raise NoCureError(f"line {below} holds more than one statement")
    at = own.end_of_line(below)
    if own.text[own.offset(below) : at].rstrip().endswith("\\"):
        raise NoCureError(f"line {below} goes on in the next one")
    is_import = any(isinstance(one, ast.Import | ast.ImportFrom) and one.end_lineno == below for one in body)
    blank = [""] if lines and is_import and not imports else []
    return Edit(at, at, "".join(f"\n{line}" for line in [*imports, *blank, *lines]))


def first_line(node: ast.stmt) -> int:
    """Return the line on which a statement begins; decorators are part of it."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


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


def call_name(node: ast.AST) -> str:
    """Return the last name of the function that a call calls; empty where the node is no call."""
    return last_name(node.func) if isinstance(node, ast.Call) else ""


# ---- imports


def above_imports(source: Source) -> int:
    """Return the line on which the docstring and the imports from `__future__` end; 0 where there are none."""
    end = 0
    for node in source.tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (is_docstring or (isinstance(node, ast.ImportFrom) and node.module == "__future__")):
            break
        end = node.end_lineno or 0
    return end


def imports_end(source: Source, module: str) -> int:
    """Return the line on which the imports at the top of a file end, and those with which a package first comes.

    Where there are none, it is the line of the docstring, or 0.
    """
    end, is_there, is_open = above_imports(source), False, True
    for node in source.tree.body:
        if (node.end_lineno or 0) > end:
            is_wanted = not is_there and module.partition(".")[0] in _packages(node)
            is_open = only_imports(node) and (is_open or is_wanted)
            is_there |= is_wanted
            end = node.end_lineno or 0 if is_open else end
    return end


def _packages(node: ast.stmt) -> set[str]:
    names = (
        [alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "") or ""]
    )
    return {name.partition(".")[0] for name in names}


def only_imports(node: ast.stmt) -> bool:
    """Whether a statement does nothing but import, maybe one of several things."""
    if isinstance(node, ast.Try | ast.If):
        inner = [*node.body, *node.orelse, *(each for one in getattr(node, "handlers", []) for each in one.body)]
        has_import = any(isinstance(one, ast.Import | ast.ImportFrom) for one in inner)
        return has_import and all(isinstance(one, ast.Import | ast.ImportFrom | ast.Assign | ast.Pass) for one in inner)
    return isinstance(node, ast.Import | ast.ImportFrom)


def import_of(source: Source, module: str, below: int = sys.maxsize) -> tuple[str, int]:
    """Return the name of a module that a file imports at its top level down to a line, and where; `"", 0` if not."""
    for node in source.tree.body:
        for alias in node.names if isinstance(node, ast.Import) and node.lineno <= below else ():
            if alias.name == module and alias.asname:
                return alias.asname, node.lineno
            if not alias.asname and (alias.name == module or alias.name.startswith(f"{module}.")):
                return module, node.lineno
    return "", 0


def is_bound(source: Source, module: str, name: str) -> bool:
    """Whether a file binds a name to something other than a module, or its package."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Name(id=bound, ctx=ast.Store()) if bound == name:
                return True
            case ast.arg(arg=bound) | ast.FunctionDef(name=bound) | ast.ClassDef(name=bound) if bound == name:
                return True
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    is_module = isinstance(node, ast.Import) and (not alias.asname or alias.name == module)
                    if (alias.asname or alias.name).partition(".")[0] == name and not is_module:
                        return True
    return False
