"""Seed arguments that do not seed: they are never read, or are None unless a seed is given.

Findings come from the source alone, so they are hints next to a measured cause, never causes. Nothing is reported
where code may read the value in a way that cannot be seen (`vars(args)`, the namespace handed to a library).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.lint.findings import NUMBERS, WEAK, Finding
from samebits.lint.project import Project, memoized, tested_for_none
from samebits.lint.source import Function, Source, called, is_none, last_name, parameters, read_sources, walk

_SEED_NAME = re.compile(r"(.*_)?seed|manualseed", re.IGNORECASE)
_DECLARING = ("add_argument", "option")
PARSERS = {"parse_args", "parse_known_args", "parse_intermixed_args"}
# Functions that may be given a whole namespace: they only show it, and train with none of its arguments.
_SHOWERS = {"print", "pprint", "repr", "str", "format", "debug", "info", "warning", "log"}
# Constants at the top of a script.
_CONSTANT = re.compile(r"(?:[A-Z0-9]+_)?SEED", re.IGNORECASE)
UNUSED = "is never read, so it seeds nothing"
# Names whose use reads every name of a scope or of an object.
_CATCH_ALL = {"vars", "locals", "asdict", "__dict__", "replace", "fields"}


@dataclass(frozen=True)
class SeedArgument:
    """An option, field or parameter that takes a seed.

    Attributes:
        name: the name that the code reads.
        shown: the name that a user would call it by.
        owner: the only function that can read it; None where all can.
    """

    node: ast.AST
    name: str
    shown: str
    default: ast.AST | None
    is_required: bool = False
    owner: ast.AST | None = None

    @property
    def is_none(self) -> bool:
        """Whether the seed is None unless it is given."""
        return not self.is_required and (self.default is None or is_none(self.default))


def find_seed_arguments(paths: Iterable[str | Path]) -> list[Finding]:
    """Return seed arguments that nothing reads or that are None by default, by path and line.

    Files that cannot be read or parsed are skipped. A program's files are best given together: an argument may be read
    in another file than the one that declares it.
    """
    sources = read_sources(paths)
    program = _Program(sources)
    findings = [finding for source in sources for finding in _judged(source, program)]
    return sorted(findings, key=lambda finding: (finding.path, finding.line))


def seed_options(source: Source, is_read: bool) -> Iterator[tuple[ast.Call, SeedArgument]]:
    """The options of a script for a seed that are read, or that are not, each with the call that declares it.

    There are none where the namespace is handed on as a whole.
    """
    program = _Program([source])
    for option in _arguments(source) if not program.hides else ():
        is_open = option.owner is None and not option.is_required
        if is_open and isinstance(option.node, ast.Call) and program.reads(option.name) == is_read:
            yield option.node, option


def seed_constant(source: Source) -> tuple[str, int]:
    """Return name and line of a number at the top of a file that is called a seed; `"", 0` where there is none."""
    for node in source.tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int(value))):
                if _CONSTANT.fullmatch(name) and type(value) is int and 0 <= value < 2**32:
                    return name, node.end_lineno or 0
            case ast.Import() | ast.ImportFrom() | ast.Assign() | ast.AnnAssign() | ast.Expr():
                continue
            case _:
                break
    return "", 0


def is_seed_name(name: str) -> bool:
    """Whether a name is that of a seed: `seed`, `SEED`, `data_seed`, `random_state`."""
    return bool(re.fullmatch(r"(.*_)?seed|seed_.*|manualseed|random_state|rngseed", name, re.IGNORECASE))


@memoized
def seed_arguments(project: Project, source: Source) -> list[Finding]:
    """Return the findings about seed arguments of a file, judged together with the scripts that it is part of."""
    return (
        [*_judged(source, _program(project, project.files_of_scripts(source)))] if "seed" in source.text.lower() else []
    )


@memoized
def _program(project: Project, sources: frozenset[Source]) -> _Program:
    return _Program(sources)


def _judged(source: Source, program: _Program) -> Iterator[Finding]:
    for argument in _arguments(source):
        if why := program.judged(argument):
            yield Finding.at(source, argument.node, why, WEAK if isinstance(argument.node, ast.arg) else NUMBERS)


def _arguments(source: Source) -> Iterator[SeedArgument]:
    for call in source.methods.of(_DECLARING):
        yield from (option for option in _option(source, call) if _SEED_NAME.fullmatch(option.name))
    for node in source.every(ast.FunctionDef, ast.AsyncFunctionDef):
        pairs = [(arg, default) for arg, default in parameters(node.args) if _SEED_NAME.fullmatch(arg.arg)]
        for arg, default in pairs if pairs and not _is_laid_down(source, node) else ():
            if arg not in (node.args.vararg, node.args.kwarg):
                yield SeedArgument(arg, arg.arg, f"{arg.arg} of {node.name}", default, default is None, node)
    for node in source.every(ast.ClassDef):
        for field in node.body if "dataclass" in map(called, node.decorator_list) else ():
            if isinstance(field, ast.AnnAssign) and _SEED_NAME.fullmatch(name := last_name(field.target)):
                yield SeedArgument(field, name, f"{name} of {node.name}", field.value, field.value is None)


def _option(source: Source, call: Any) -> Iterator[SeedArgument]:
    """The option that a call of argparse or click declares; both name its variable by the first long name."""
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    shown = next((name for name in names if name.startswith("--")), "")
    plain = next((name for name in names if not name.startswith("-")), shown.lstrip("-").replace("-", "_"))
    name = str(getattr(keywords.get("dest"), "value", plain))
    # With click, the function that the option decorates has a parameter of that name.
    owner = source.parents.get(call) if last_name(call.func) == "option" else None
    if shown and None not in keywords and (owner is None or isinstance(owner, Function)):
        is_required = bool({"required", "action", "prompt"} & keywords.keys()) and "default" not in keywords
        yield SeedArgument(call, name, shown, keywords.get("default"), is_required, owner)


class _Program:
    """All files of a program, and the names that they read."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources = [*sources]
        self.hides = any(_CATCH_ALL & source.words for source in self.sources) or self._hands_on_a_namespace()

    def judged(self, argument: SeedArgument) -> str:
        """Return what is wrong with a seed argument, as a clause; empty if nothing is, or if that cannot be known."""
        nodes = [*walk(argument.owner)] if argument.owner else None
        hides = self.hides if nodes is None else any(last_name(node) in _CATCH_ALL for node in nodes)
        if not (self.reads(argument.name) if nodes is None else any(_is_name(node, argument.name) for node in nodes)):
            return "" if hides else f"{argument.shown} {UNUSED}"
        scope = self._of(ast.Assign, ast.BoolOp, ast.IfExp, ast.If) if nodes is None else nodes
        if not argument.is_none or any(_replaces(node, argument.name) for node in scope):
            return ""
        tests = [tested_for_none(node.test) for node in scope if isinstance(node, ast.If)]
        is_guarded = any(last_name(tested) == argument.name and not if_none for tested, if_none in tests)
        end = "without it the seeding is skipped" if is_guarded else "what is seeded with None starts anew in every run"
        if any(isinstance(node, ast.Assign) and argument.name in map(last_name, node.targets) for node in scope):
            end = "then it is drawn"
        return f"{argument.shown} is None unless it is given, and {end}"

    def _of(self, *kinds: type[ast.AST]) -> list[Any]:
        return [node for source in self.sources for node in source.every(*kinds)]

    def reads(self, name: str) -> bool:
        """Whether a file reads a name: `args.seed`, `config["seed"]`, `getattr(args, "seed")`; not `random.seed(1)`."""
        return any(
            isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and not source.is_called(node)
            for source in self.sources
            for node in source.named[name]
        ) or any(
            node.value == name and not any(map(_is_option, source.ancestors(node)))
            for source in self.sources
            for node in source.every(ast.Constant)
        )

    def _hands_on_a_namespace(self) -> bool:
        """Whether parsed arguments are passed to where their attributes cannot be followed."""
        defined = {node.name for node in self._of(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)}
        # A function that parses may return the namespace, so its calls count, too.
        parsing = [(source, call) for source in self.sources for call in source.methods.of(PARSERS)]
        holders = [source.function_of(call) for source, call in parsing]
        makers = PARSERS | {node.name for node in holders if isinstance(node, Function)}
        users = [source.parents[call] for source in self.sources for call in source.methods.of(makers)]
        if not all(isinstance(user, ast.Assign | ast.Return | ast.Attribute | ast.Expr) for user in users):
            return True
        names = {last_name(n) for user in users if isinstance(user, ast.Assign) for t in user.targets for n in walk(t)}
        for source in self.sources:
            mentions = [node for node in source.named.of(names) if isinstance(node, ast.Name)]
            for parent in (source.parents[node] for node in mentions if isinstance(node.ctx, ast.Load)):
                if isinstance(parent, ast.Call) and last_name(parent.func) not in defined | _SHOWERS:
                    return True
                if not isinstance(parent, ast.Call | ast.Attribute | ast.Return | ast.FormattedValue):
                    return True
        return False


def _replaces(node: ast.AST, name: str) -> bool:
    """Whether a node puts a constant in the place of None: `if seed is None: seed = 0`, or `seed or 0`."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
        return any(last_name(target) == name for target in node.targets)
    if not isinstance(node, ast.BoolOp | ast.IfExp):
        return False
    parts = [*walk(node)]
    return any(last_name(part) == name for part in parts) and not any(isinstance(part, ast.Call) for part in parts)


def _is_option(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in _DECLARING


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def _is_laid_down(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether other code fixes the parameters of a function: a base class, an interface, a decorator of click."""
    holder = source.parents.get(function)
    is_stub = all(
        isinstance(node, ast.Pass | ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in function.body
    )
    is_inherited = isinstance(holder, ast.ClassDef) and bool(holder.bases)
    return is_stub or is_inherited or "option" in map(called, function.decorator_list)
