"""A source file, parsed, and small questions about its syntax."""

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
# What is written in a file; of a notebook its code, and where each cell begins that holds any (see `Source`).
Text = tuple[str, tuple[tuple[int, int], ...]]


class Index(dict[K, list[V]]):
    """Lists by what their members are called, or belong to; of anything else there are none."""

    def __init__(self, pairs: Iterable[tuple[K, V]]) -> None:
        super().__init__()
        for key, value in pairs:
            if key in self:
                self[key].append(value)
            else:
                self[key] = [value]

    def __missing__(self, key: K) -> list[V]:
        return []


@dataclass(frozen=True, eq=False)
class Source:
    """A parsed file, or the cells of a notebook one after the other.

    Attributes:
        nodes: everything in the tree by its type, in the order of the file.
        cells: where each cell begins that holds code, as the line before its first one and its number, from 1.
    """

    path: str
    text: str
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]
    nodes: dict[type[ast.AST], list[Any]]
    cells: tuple[tuple[int, int], ...] = field(default=(), repr=False)

    @cached_property
    def lines(self) -> list[str]:
        """Its lines, without their endings."""
        return self.text.split("\n")

    @cached_property
    def module(self) -> tuple[str, ...]:
        """Its name as a module."""
        return module_of(self.path)

    def is_meant(self, name: Sequence[str]) -> bool:
        """Whether an import of that name, in its parts, may mean it."""
        return self.module[-len(name) :] == tuple(name)

    def is_called(self, node: ast.expr) -> bool:
        """Whether something is a function that is called where it stands."""
        parent = self.parents[node]
        return isinstance(parent, ast.Call) and parent.func is node

    def mentions(self, name: str) -> list[ast.Name | ast.Attribute]:
        """Where a name, or an attribute of a name, is written, in the order of the file."""
        own = [node for node in self.named[name.rpartition(".")[2]] if dotted(node) == name]
        return sorted(own, key=lambda node: (node.lineno, node.col_offset))

    @cached_property
    def named(self) -> dict[str, list[ast.Name | ast.Attribute]]:
        """Where a name stands, or an attribute of anything is called so."""
        names = [(node.id, node) for node in self.every(ast.Name)]
        return Index([*names, *((node.attr, node) for node in self.every(ast.Attribute))])

    @property
    def words(self) -> Set[str]:
        """Every name, and the last part of every attribute."""
        return self.named.keys()

    @cached_property
    def assigned(self) -> dict[str, list[ast.Assign]]:
        """The assignments to a name, or an attribute of a name, and nothing else."""
        return Index((dotted(one.targets[0]), one) for one in self.every(ast.Assign) if len(one.targets) == 1)

    def every(self, *kinds: type[ast.AST]) -> Iterator[Any]:
        """Everything of some types."""
        for kind in kinds:
            yield from self.nodes.get(kind, ())

    @cached_property
    def imported(self) -> dict[str, str]:
        """What names stand for: `np` for `numpy`, wherever the import stands; and other names for those."""
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
        """`numpy.random.rand` for `np.random.rand`; what is not imported keeps its name, with a dot before `a.b`."""
        root, dot, rest = dotted(node).partition(".")
        if root in self._shadowed and any(root in _arguments_of(one) for one in self.around(node)):
            return f".{root}{dot}{rest}"
        return f"{self.imported[root]}{dot}{rest}" if root in self.imported else f"{dot}{root}{dot}{rest}"

    @cached_property
    def _shadowed(self) -> frozenset[str]:
        """Imported names that are also those of parameters."""
        return frozenset(node.arg for node in self.every(ast.arg)) & self.imported.keys()

    @cached_property
    def calls(self) -> dict[str, list[ast.Call]]:
        """All calls by what is called, qualified; those of what has no name by the last part, as in `.cuda`."""
        return Index((self.qualified(node.func) or f".{last_name(node.func)}", node) for node in self.every(ast.Call))

    @cached_property
    def methods(self) -> dict[str, list[ast.Call]]:
        """All calls by the last part of what is called: `backward` for `loss.backward()`."""
        return Index((last_name(node.func), node) for node in self.every(ast.Call))

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
    found = []
    for path in dict.fromkeys(map(str, paths)):
        with suppress(UnreadableError):
            found.append(parsed(path, *text_of(path)))
    return found


class UnreadableError(Exception):
    """A file that cannot be read, or is no Python: why, and in which line, 0 where that is not known."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(why)
        self.why, self.line = why, line


def module_of(path: str) -> tuple[str, ...]:
    """A file's path as that of a module, as far as it is given: `src/tools/__init__.py` is `src`, `tools`."""
    *folders, name = PurePath(path).parts
    stem = name.rpartition(".")[0]
    return tuple(folders) if stem == "__init__" else (*folders, stem)


def text_of(path: str) -> Text:
    """What is written in a file, decoded as Python does."""
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


def _code_of(notebook: Any) -> Text:
    """The code cells; what only IPython understands is left blank, and so are cells in other languages."""
    lines, cells = list[str](), list[tuple[int, int]]()
    for number, cell in enumerate(notebook["cells"], 1):
        code = "".join(cell["source"])
        if cell["cell_type"] == "code" and not code.lstrip().startswith("%%"):
            cells.append((len(lines), number))
            lines += code.split("\n")
    # Commands of the shell and of IPython, with the lines on which they go on.
    text = re.sub(r"^([ \t]*)(?:[%!?](?:.*\\\n)*.*|.*\?[ \t]*)$", _blanked, "\n".join(lines), flags=re.MULTILINE)
    return text, tuple(cells)


def _blanked(command: re.Match[str]) -> str:
    return f"{command[1]}pass" + "\n" * command[0].count("\n")


def parsed(path: str, text: str, cells: tuple[tuple[int, int], ...] = ()) -> Source:
    """The file of that text; UnreadableError where it is no Python."""
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
        if kind is ast.Name or kind is ast.Constant:  # half of all, and there is nothing in them
            continue
        below = children(node)
        for child in below:
            parents[child] = node
        below.reverse()
        waiting += below
    return Source(path, text, tree, parents, nodes, cells)


# Fields that hold operators, contexts, or no nodes; and of each type the others.
_NO_CHILDREN = {"ctx", "op", "ops", "id", "attr", "arg", "asname", "module", "level", "kind", "type_comment"}
_NO_CHILDREN |= {"conversion", "simple", "is_async", "kwd_attrs", "rest", "tag"}
_FIELDS: dict[type[ast.AST], list[str]] = {ast.Constant: [], ast.Global: [], ast.Nonlocal: []}


def children(node: ast.AST) -> list[ast.AST]:
    """What `ast.iter_child_nodes` gives, but operators and contexts, in a fraction of the time."""
    kind = type(node)
    found: list[ast.AST] = []
    if kind not in _FIELDS:
        _FIELDS[kind] = [name for name in kind._fields if name not in _NO_CHILDREN]
    for name in _FIELDS[kind]:
        value = getattr(node, name, None)
        if type(value) is list:
            found += filter(None, value)
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and everything in it, as `ast.walk` does, but for operators and contexts."""
    waiting = [node]
    for one in waiting:
        yield one
        waiting += children(one)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Trees hold no garbage, and looking for it takes longer than parsing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def dotted(node: ast.AST | None) -> str:
    """`a.b.c` for names and attributes of names, else nothing."""
    if isinstance(node, ast.Name):
        return node.id
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def last_name(node: ast.AST | None) -> str:
    """`c` for `a.b.c` and `a().c`, `a` for `a`, else nothing."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def called(node: ast.expr) -> str:
    """The last name of a decorator, or of what is called."""
    return last_name(node.func if isinstance(node, ast.Call) else node)


def owner_of(call: ast.Call) -> ast.expr | None:
    """`a.b` for `a.b.c()`; None for a plain name."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def is_none(node: ast.AST | None) -> bool:
    """Whether it is written as None."""
    return isinstance(node, ast.Constant) and node.value is None


def _arguments_of(node: ast.AST) -> set[str]:
    return {one.arg for one, _ in parameters(node.args)} if isinstance(node, Function | ast.Lambda) else set()


def parameters(arguments: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    """All parameters, each with its default; those that take what is left over last."""
    positional, defaults = [*arguments.posonlyargs, *arguments.args], arguments.defaults
    rest = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [
        *zip(positional, [*[None] * (len(positional) - len(defaults)), *defaults], strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        *((each, None) for each in rest),
    ]
