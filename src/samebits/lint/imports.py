"""Where a file imports what, and what else it binds the names to."""

from __future__ import annotations

import ast
import sys

from samebits.lint.source import Source


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
