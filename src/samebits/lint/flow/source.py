"""A source file, parsed, and small questions about its syntax."""

from __future__ import annotations

import ast
import tokenize
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A parsed file: `mentions` says where each name, or attribute of a name, is written, in the order of the file."""

    path: str
    tree: ast.Module
    lines: Sequence[str]
    parents: dict[ast.AST, ast.AST]
    mentions: dict[str, list[ast.expr]]

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """`pkg/data.py` and `pkg/data/__init__.py` are imported as `pkg.data`."""
        parts = PurePath(self.path).with_suffix("").parts
        return parts[:-1] if parts[-1:] == ("__init__",) else parts

    def function_of(self, node: ast.AST) -> ast.AST:
        """The innermost function around a node, else the module."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, Function | ast.Lambda):
                break
        return node

    def path_of(self, name: str, sources: Iterable[Source]) -> str:
        """The one of `sources` that an import in this file means; nothing when none or several could be meant."""
        parts = tuple(name.split("."))
        fitting = [source for source in sources if source.parts[-len(parts) :] == parts]
        if len(fitting) > 1:
            fitting = [source for source in fitting if source.parts[: -len(parts)] == self.parts[:-1]]
        return fitting[0].path if len(fitting) == 1 else ""


def read_source(path: str) -> Source | None:
    """The file at `path`; nothing if it cannot be read or is no Python."""
    try:
        with tokenize.open(path) as file:
            text = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    parents, mentions = dict[ast.AST, ast.AST](), dict[str, list[ast.expr]]()
    for node in ast.walk(tree):
        parents.update((child, node) for child in ast.iter_child_nodes(node))
        if isinstance(node, ast.Name | ast.Attribute) and (name := dotted(node)):
            mentions.setdefault(name, []).append(node)
    for nodes in mentions.values():
        nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return Source(path, tree, text.split("\n"), parents, mentions)


def dotted(node: ast.AST) -> str:
    """`a.b.c` for names and attributes of names, else nothing."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def last_name(node: ast.AST) -> str:
    """`c` for `a.b.c` and `a().c`, `a` for `a`, else nothing."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def with_defaults(arguments: ast.arguments) -> dict[ast.arg, ast.expr]:
    """The parameters that have a default, and which."""
    positional = reversed([*arguments.posonlyargs, *arguments.args])
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {
        **dict(zip(positional, reversed(arguments.defaults), strict=False)),
        **{parameter: default for parameter, default in named if default is not None},
    }


def parameters(arguments: ast.arguments) -> list[ast.arg]:
    """All parameters, those that take what is left over last."""
    rest = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]
