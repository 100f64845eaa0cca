"""Parsed source files, and small questions about their syntax."""

from __future__ import annotations

import ast
import gc
import json
import re
import tokenize
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")
Function = ast.FunctionDef | ast.AsyncFunctionDef
# The text of a file (of a notebook, its code), and where each cell of a notebook begins that has code (see `Source`).
Text = tuple[str, tuple[tuple[int, int], ...]]


class Index(dict[K, list[V]]):
    """A dict from keys to the lists of values that were given for them; a missing key has an empty list."""

    def __init__(self, pairs: Iterable[tuple[K, V]]) -> None:
        super().__init__()
        for key, value in pairs:
            if key in self:
                self[key].append(value)
            else:
                self[key] = [value]

    def __missing__(self, key: K) -> list[V]:
        return []

    def of(self, keys: Iterable[K]) -> list[V]:
        """Return the values of several keys, key by key."""
        return [value for key in keys for value in self[key]]


@dataclass(frozen=True, eq=False)
class Source:
    """A parsed file, or the cells of a notebook one after the other.

    Attributes:
        nodes: all nodes of the tree by type, in the order of the file.
        cells: of a notebook, for each cell that holds code: the line before its first one, and its number, from 1.
    """

    path: str
    text: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]
    nodes: dict[type[ast.AST], list[Any]]
    cells: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the file, without their endings."""
        return self.text.split("\n")

    @cached_property
    def module(self) -> tuple[str, ...]:
        """The name of the file as a module, in its parts."""
        return module_of(self.path)

    def is_meant(self, name: Sequence[str]) -> bool:
        """Whether an import of a name, given in its parts, may mean this file."""
        return self.module[-len(name) :] == tuple(name)

    def is_called(self, node: ast.expr) -> bool:
        """Whether an expression is the function of a call."""
        parent = self.parents[node]
        return isinstance(parent, ast.Call) and parent.func is node

    def mentions(self, name: str) -> list[ast.Name | ast.Attribute]:
        """Return the nodes of a name, or of an attribute of a name, in the order of the file."""
        nodes = [node for node in self.named[name.rpartition(".")[2]] if dotted(node) == name]
        return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))

    @cached_property
    def named(self) -> Index[str, ast.Name | ast.Attribute]:
        """The nodes of names, and of attributes whatever their object, by the name."""
        names = [(node.id, node) for node in self.every(ast.Name)]
        return Index([*names, *((node.attr, node) for node in self.every(ast.Attribute))])

    @property
    def words(self) -> Set[str]:
        """Every name, and the last part of every attribute."""
        return self.named.keys()

    @cached_property
    def assigned(self) -> Index[str, ast.Assign]:
        """The assignments to a single name, or to an attribute of a name, by that name."""
        return Index((dotted(one.targets[0]), one) for one in self.every(ast.Assign) if len(one.targets) == 1)

    def every(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """The nodes of some types."""
        for kind in kinds:
            yield from self.nodes.get(kind, ())

    @cached_property
    def imported(self) -> dict[str, str]:
        """Imported names, wherever they are imported, and names assigned from them → the full names: `np` → `numpy`."""
        names: dict[str, str] = {}
        for node in self.every(ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                names[alias.asname or root] = alias.name if alias.asname else root
        for node in self.every(ast.ImportFrom):
            names |= {one.asname or one.name: f"{node.module or ''}.{one.name}".lstrip(".") for one in node.names}
        for node in self.every(ast.Assign):
            text, first = dotted(node.value), node.targets[0]
            root, dot, rest = text.partition(".")
            if dot and isinstance(first, ast.Name) and root in names and first.id not in names:
                names[first.id] = f"{names[root]}.{rest}"
        return names

    def qualified(self, node: ast.AST) -> str:
        """Return `numpy.random.rand` for `np.random.rand`; where `a` is not imported, `.a.b` for `a.b`, `a` for `a`."""
        root, dot, rest = dotted(node).partition(".")
        if root in self._shadowed and any(root in _arguments_of(outer) for outer in self.ancestors(node)):
            return f".{root}{dot}{rest}"
        return f"{self.imported[root]}{dot}{rest}" if root in self.imported else f"{dot}{root}{dot}{rest}"

    @cached_property
    def _shadowed(self) -> frozenset[str]:
        """The imported names that are also names of parameters."""
        return frozenset(node.arg for node in self.every(ast.arg)) & self.imported.keys()

    @cached_property
    def calls(self) -> Index[str, ast.Call]:
        """All calls by the function's qualified name; where it has none, by its last part, as in `.cuda`."""
        return Index((self.qualified(node.func) or f".{last_name(node.func)}", node) for node in self.every(ast.Call))

    @cached_property
    def methods(self) -> Index[str, ast.Call]:
        """All calls by the last part of the function's name: `backward` for `loss.backward()`."""
        return Index((last_name(node.func), node) for node in self.every(ast.Call))

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that a node stands in, from the inside out."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def function_of(self, node: ast.AST) -> ast.AST:
        """Return the innermost function around a node, else the module."""
        return next(outer for outer in self.ancestors(node) if isinstance(outer, Function | ast.Lambda | ast.Module))

    def qualname(self, node: ast.AST) -> str:
        """Return the qualified name of a function or class, or of that around a node; `<module>` at the top level."""
        holders = [outer for outer in (node, *self.ancestors(node)) if isinstance(outer, Function | ast.ClassDef)]
        names = [f"{one.name}.<locals>" if isinstance(one, Function) else one.name for one in reversed(holders)]
        return ".".join(names).removesuffix(".<locals>") or "<module>"


def read_sources(paths: Iterable[str | Path]) -> list[Source]:
    """Return the parsed files, each once, without those that cannot be read or are no Python."""
    sources = []
    for path in dict.fromkeys(map(str, paths)):
        with suppress(UnreadableError):
            sources.append(parsed(path, *text_of(path)))
    return sources


class UnreadableError(Exception):
    """Raised where a file cannot be read or is no Python; says why, and in which line, 0 where that is not known."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why, self.line = why, line


def module_of(path: str) -> tuple[str, ...]:
    """Return the parts of a file's path as a module's name: `src`, `tools` for `src/tools/__init__.py`."""
    *folders, name = PurePath(path).parts
    stem = name.rpartition(".")[0]
    return tuple(folders) if stem == "__init__" else (*folders, stem)


def text_of(path: str) -> Text:
    """Return the text of a file, decoded as Python does; raises UnreadableError where that fails."""
    try:
        if path.endswith(".ipynb"):
            return _code_of(json.loads(Path(path).read_text(encoding="utf-8")))
        with tokenize.open(path) as file:
            return file.read(), ()
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from error
    except SyntaxError as error:
        raise UnreadableError("it is not UTF-8, and names no encoding that Python knows") from error
    except UnicodeDecodeError as error:
        raise UnreadableError(
            f"it is not {error.encoding}: byte {error.start} is {error.object[error.start]:#04x}"
        ) from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError(f"it is no notebook: {error}") from error


_CELL_MAGIC = re.compile(r"\s*%%(\w*)")
# What follows these is Python that runs in the notebook (IPython, "Built-in magic commands").
_OF_PYTHON = {"time", "timeit", "capture", "prun", "debug"}


def _code_of(notebook: Any) -> Text:
    """Return the code of a notebook; commands of IPython become `pass`, cells in other languages are left out."""
    lines, cells = list[str](), list[tuple[int, int]]()
    for number, cell in enumerate(notebook["cells"], 1):
        code = "".join(cell["source"])
        magic = _CELL_MAGIC.match(code)
        if cell["cell_type"] == "code" and (magic is None or magic[1] in _OF_PYTHON):
            cells.append((len(lines), number))
            lines += _without_commands(code).split("\n")
    return "\n".join(lines), tuple(cells)


# Commands of the shell and of IPython, with the lines on which they go on and what they are assigned to; and help.
_COMMAND = re.compile(
    r"^([ \t]*)([\w., \t]+=[ \t]*)?(?:[%!](?:.*\\\n)*.*|\?{1,2}[\w.]+|[\w.]+\?{1,2})[ \t]*$", re.MULTILINE
)


def _without_commands(code: str) -> str:
    """Return a cell with `pass` or None in the place of each command at which it stops being Python."""
    while True:
        try:
            parsed("", code)
            return code
        except UnreadableError as error:
            lines = [(code.count("\n", 0, one.start()) + 1, one) for one in _COMMAND.finditer(code)]
            found = [one for line, one in lines if line <= error.line <= line + one[0].count("\n")]
            if not found:
                return code
            command = found[0]
            blank = command[1] + (f"{command[2]}None" if command[2] else "pass") + "\n" * command[0].count("\n")
            code = code[: command.start()] + blank + code[command.end() :]


def parsed(path: str, text: str, cells: tuple[tuple[int, int], ...] = ()) -> Source:
    """Return the parsed file of a text; raises UnreadableError where it is no Python."""
    try:
        with warnings.catch_warnings(), without_collecting():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        raise UnreadableError(f"it is no Python: {error.msg}", error.lineno or 0) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UnreadableError(f"it is no Python: {error or type(error).__name__}") from error
    parents, nodes = dict[ast.AST, ast.AST](), defaultdict[type[ast.AST], list[Any]](list)
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        kind = type(node)
        nodes[kind].append(node)
        if kind is ast.Name or kind is ast.Constant:  # half of all nodes, and they have no children
            continue
        inner = children(node)
        for child in inner:
            parents[child] = node
        inner.reverse()
        waiting += inner
    return Source(path, text, tree, parents, nodes, cells)


# Fields that hold operators, contexts or no nodes; and the other fields of each type, once they are asked for.
_NO_CHILDREN = {"ctx", "op", "ops", "id", "attr", "arg", "asname", "module", "level", "kind", "type_comment"}
_NO_CHILDREN |= {"conversion", "simple", "is_async", "kwd_attrs", "rest", "tag"}
_FIELDS: dict[type[ast.AST], list[str]] = {ast.Constant: [], ast.Global: [], ast.Nonlocal: []}


def children(node: ast.AST) -> list[ast.AST]:
    """Return what `ast.iter_child_nodes` gives, without operators and contexts, in a fraction of the time."""
    kind = type(node)
    inner: list[ast.AST] = []
    if kind not in _FIELDS:
        _FIELDS[kind] = [name for name in kind._fields if name not in _NO_CHILDREN]
    for name in _FIELDS[kind]:
        value = getattr(node, name, None)
        if type(value) is list:
            inner += filter(None, value)
        elif isinstance(value, ast.AST):
            inner.append(value)
    return inner


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all nodes in it, as `ast.walk` gives them, without operators and contexts."""
    waiting = [node]
    for part in waiting:
        yield part
        waiting += children(part)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Pause the garbage collector: trees hold no garbage, and looking for it takes longer than parsing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def dotted(node: ast.AST | None) -> str:
    """Return `a.b.c` for names and attributes of names, else an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def last_name(node: ast.AST | None) -> str:
    """Return `c` for `a.b.c` and `a().c`, `a` for `a`, else an empty text."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def called(node: ast.expr) -> str:
    """Return the last name of a decorator, or of the function of a call."""
    return last_name(node.func if isinstance(node, ast.Call) else node)


def owner_of(call: ast.Call) -> ast.expr | None:
    """Return `a.b` for `a.b.c()`; None where a plain name is called."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def is_none(node: ast.AST | None) -> bool:
    """Whether an expression is written as None."""
    return isinstance(node, ast.Constant) and node.value is None


def _arguments_of(node: ast.AST) -> set[str]:
    return {arg.arg for arg, _ in parameters(node.args)} if isinstance(node, Function | ast.Lambda) else set()


def parameters(arguments: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """Return all parameters, each with its default; `*args` and `**kwargs` come last."""
    positional, defaults = [*arguments.posonlyargs, *arguments.args], arguments.defaults
    rest = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [
        *zip(positional, [*[None] * (len(positional) - len(defaults)), *defaults], strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        *((each, None) for each in rest),
    ]
