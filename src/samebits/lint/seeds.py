"""Seed arguments that do not seed: never read, or None unless somebody gives one.

Read from the source, so these are hints beside a measured cause, never causes. Where the value may be read in a way
that reading does not see (`vars(args)`, the namespace handed to a library), nothing is said.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from samebits.lint.source import Function, Source, last_name, parameters, read_sources, with_defaults

Kind = Literal["unused", "default-none"]

SEED_NAME = re.compile(r"(.*_)?seed|manualseed", re.IGNORECASE)
PARSERS = ("parse_args", "parse_known_args", "parse_intermixed_args")
# What is given a whole namespace and reads no single argument of it to train with.
SHOWERS = ("print", "pprint", "repr", "str", "format", "debug", "info", "warning", "log")
# How many functions a namespace is followed through.
FOLLOWED_CALLS = 3
# Reads every name of a scope or of an object.
CATCH_ALL = ("vars", "locals", "asdict", "__dict__", "replace", "fields")
STARTS_ANEW = "what is seeded with None starts anew in every run"


@dataclass(frozen=True)
class SeedFinding:
    """A seed argument that may not do what its name says.

    Attributes:
        path: as it was given.
        line: counts from 1.
        kind: `unused`: nothing reads it; `default-none`: without a value there is no seed.
        text: what is the matter, as a sentence without its full stop.
    """

    path: str
    line: int
    kind: Kind
    text: str


@dataclass(frozen=True)
class _Argument:
    """A place where a seed can be given: `name` is what the code reads, `shown` what a user would call it."""

    source: Source
    node: ast.expr | ast.arg | ast.stmt
    name: str
    shown: str
    is_none: bool
    owner: ast.AST | None = None


def find_seed_arguments(paths: Iterable[str | Path]) -> list[SeedFinding]:
    """Seed arguments that nothing reads or that are None by default, by path and line.

    Args:
        paths: Python source files; those that cannot be read or parsed are skipped. A program's files are best given
            together: an argument may be read in another file than the one that declares it.
    """
    sources = read_sources(paths)
    program = _Program(sources)
    found = [program.judge(argument) for source in sources for argument in _arguments(source)]
    return sorted(filter(None, found), key=lambda finding: (finding.path, finding.line))


def _arguments(source: Source) -> Iterator[_Argument]:
    for node in ast.walk(source.tree):
        if _is_option(node):
            yield from _option(source, node)
        elif isinstance(node, Function):
            yield from _parameters(source, node)
        elif isinstance(node, ast.ClassDef) and any(_called(each) == "dataclass" for each in node.decorator_list):
            yield from _fields(source, node)


def _option(source: Source, call: Any) -> Iterator[_Argument]:
    """An option of argparse or click; both take the first long name for that of the variable."""
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    shown = next((name for name in names if name.startswith("--")), "")
    plain = next((name for name in names if not name.startswith("-")), shown.lstrip("-").replace("-", "_"))
    name = str(getattr(given.get("dest"), "value", plain))
    if not shown or not SEED_NAME.fullmatch(name) or None in given:
        return
    is_given = any(word in given for word in ("required", "action", "prompt"))
    is_none = _is_none(given["default"]) if "default" in given else not is_given
    # With click, the function that the option decorates has a parameter of that name.
    owner = source.parents.get(call) if last_name(call.func) == "option" else None
    if owner is None or isinstance(owner, Function):
        yield _Argument(source, call, name, shown, is_none, owner)


def _parameters(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[_Argument]:
    holder = source.parents.get(function)
    is_laid_down = isinstance(holder, ast.ClassDef) and bool(holder.bases)
    if is_laid_down or _is_stub(function) or any(_called(each) == "option" for each in function.decorator_list):
        return
    defaults = with_defaults(function.args)
    for arg in parameters(function.args):
        if SEED_NAME.fullmatch(arg.arg) and arg not in (function.args.vararg, function.args.kwarg):
            yield _Argument(
                source, arg, arg.arg, f"{arg.arg} of {function.name}", _is_none(defaults.get(arg)), function
            )


def _fields(source: Source, holder: ast.ClassDef) -> Iterator[_Argument]:
    for node in holder.body:
        name = last_name(node.target) if isinstance(node, ast.AnnAssign) else ""
        if isinstance(node, ast.AnnAssign) and SEED_NAME.fullmatch(name):
            yield _Argument(source, node, name, f"{name} of {holder.name}", _is_none(node.value))


class _Program:
    """All files together, and what is read in them."""

    def __init__(self, sources: list[Source]) -> None:
        self.nodes = [(source, node) for source in sources for node in ast.walk(source.tree)]
        self.functions = {node.name for _, node in self.nodes if isinstance(node, Function | ast.ClassDef)}
        self.hides = any(last_name(node) in CATCH_ALL for _, node in self.nodes) or self._leaves()

    def judge(self, argument: _Argument) -> SeedFinding | None:
        """What is the matter with a seed argument; None if nothing is, or if that cannot be known."""
        own, where = argument.owner, (argument.source.path, argument.node.lineno)
        if not (self._is_loaded(own, argument.name) if own else self._is_mentioned(argument.name)):
            hides = any(last_name(node) in CATCH_ALL for node in ast.walk(own)) if own else self.hides
            text = f"{argument.shown} is never read, so it seeds nothing"
            return None if hides else SeedFinding(*where, "unused", text)
        if not argument.is_none or self._is_replaced(argument):
            return None
        so = "without it the seeding is skipped" if self._is_guarded(argument) else STARTS_ANEW
        text = f"{argument.shown} is None unless it is given, and {so}"
        return SeedFinding(*where, "default-none", text)

    def _is_loaded(self, owner: ast.AST, name: str) -> bool:
        return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(owner))

    def _is_mentioned(self, name: str) -> bool:
        """`args.seed`, `config["seed"]`, `getattr(args, "seed")`."""
        return any(
            (isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load))
            or (isinstance(node, ast.Constant) and node.value == name and not _is_in_declaration(source, node))
            for source, node in self.nodes
        )

    def _is_replaced(self, argument: _Argument) -> bool:
        """A constant is put in the place of None: `if seed is None: seed = 0`, or `seed or 0`."""
        for node in self._scope(argument):
            targets = node.targets if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) else []
            if any(last_name(target) == argument.name for target in targets):
                return True
            if isinstance(node, ast.BoolOp | ast.IfExp) and any(last_name(n) == argument.name for n in ast.walk(node)):
                return True
        return False

    def _is_guarded(self, argument: _Argument) -> bool:
        """None seeds nothing: `if seed:`, or `if seed is not None:`."""
        return any(isinstance(node, ast.If) and _is_given(node.test, argument.name) for node in self._scope(argument))

    def _scope(self, argument: _Argument) -> Iterator[ast.AST]:
        return ast.walk(argument.owner) if argument.owner else (node for _, node in self.nodes)

    def _leaves(self) -> bool:
        """Whether a namespace of parsed arguments goes where its attributes cannot be followed."""
        # Namespaces go by these names, and come from these functions: one that returns a namespace is one of them.
        names, makers = set[str](), set(PARSERS)
        for _ in range(FOLLOWED_CALLS):
            for source, node in self.nodes:
                makes = isinstance(node, ast.Call) and last_name(node.func) in makers
                parent = source.parents.get(node)
                if makes and isinstance(parent, ast.Assign):
                    names |= {last_name(n) for target in parent.targets for n in ast.walk(target) if last_name(n)}
                elif isinstance(parent, ast.Return) and (makes or last_name(node) in names):
                    makers.add(getattr(source.function_of(node), "name", ""))
                elif makes and not isinstance(parent, ast.Attribute | ast.Expr):
                    return True
        return any(self._is_handed_on(source, node, names) for source, node in self.nodes)

    def _is_handed_on(self, source: Source, node: ast.AST, names: set[str]) -> bool:
        if not isinstance(node, ast.Name) or node.id not in names or not isinstance(node.ctx, ast.Load):
            return False
        parent = source.parents.get(node)
        if isinstance(parent, ast.Call):
            return last_name(parent.func) not in self.functions | set(SHOWERS)
        return not isinstance(parent, ast.Attribute | ast.Return | ast.FormattedValue)


def _is_in_declaration(source: Source, node: ast.AST) -> bool:
    """Whether a string is part of what declares the option."""
    parent = source.parents.get(node)
    return _is_option(source.parents.get(parent) if isinstance(parent, ast.keyword) else parent)


def _is_option(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in ("add_argument", "option")


def _called(node: ast.expr) -> str:
    return last_name(node.func if isinstance(node, ast.Call) else node)


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_given(test: ast.expr, name: str) -> bool:
    """Whether a test says that something has a value."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot) and _is_none(test.comparators[0]):
        test = test.left
    return last_name(test) == name


def _is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return all(
        isinstance(node, ast.Pass | ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in function.body
    )
