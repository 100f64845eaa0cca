"""A source file, parsed, and small questions about its syntax."""

from __future__ import annotations

import ast
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """A parsed file: `mentions` says where each name, or attribute of a name, is written, in the order of the file."""

    path: str
    tree: ast.Module
    lines: Sequence[str]
    parents: dict[ast.AST, ast.AST]
    mentions: dict[str, list[ast.expr]]

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, from the inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> ast.AST:
        """The innermost function around a node, else the module."""
        return next(one for one in self.around(node) if isinstance(one, Function | ast.Lambda | ast.Module))

    def qualname(self, node: ast.AST) -> str:
        """Of a function or class, or of the one around another node; `<module>` at the top level."""
        holders = [one for one in (node, *self.around(node)) if isinstance(one, Function | ast.ClassDef)]
        names = [f"{one.name}.<locals>" if isinstance(one, Function) else one.name for one in reversed(holders)]
        return ".".join(names).removesuffix(".<locals>") or "<module>"


def read_sources(paths: Iterable[str | Path]) -> list[Source]:
    """The files, each once, without those that cannot be read or are no Python."""
    return [source for path in dict.fromkeys(map(str, paths)) if (source := _read(path)) is not None]


def _read(path: str) -> Source | None:
    try:
        with tokenize.open(path) as file:
            return parse(path, file.read())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def parse(path: str, text: str) -> Source:
    """A file whose text is known; raises what `ast.parse` does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
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


def parameters(arguments: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """All parameters, each with its default; those that take what is left over last."""
    positional, defaults = [*arguments.posonlyargs, *arguments.args], arguments.defaults
    rest = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [
        *zip(positional, [*[None] * (len(positional) - len(defaults)), *defaults], strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        *((each, None) for each in rest),
    ]
