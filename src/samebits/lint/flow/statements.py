"""Statements: one file is read once, in the order in which it would run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import cast

from samebits.lint.findings import LISTS, LOOPS, NUMBERS, SILENT, Finding
from samebits.lint.flow.callables import LOGGING, SET_CHANGES
from samebits.lint.flow.expressions import Expressions
from samebits.lint.flow.learned import Scope
from samebits.lint.flow.shapes import (
    INT,
    NEVER,
    NUMBER,
    PLAIN,
    UNKNOWN,
    Shape,
    container,
    join,
    joined,
    operated,
    promised,
)
from samebits.lint.flow.source import Function, dotted, last_name, parameters, with_defaults
from samebits.lint.flow.uses import is_numbering, is_sorted_later


class Reader(Expressions):
    """Reads a file statement by statement; functions after the scope they are defined in."""

    def read(self) -> list[Finding]:
        """The findings of the file; what was learned about it is left in `learned`."""
        self.waiting: dict[Function, Scope] = {}
        self.read_scope(self.top, self.source.tree.body)
        while self.waiting:
            node = next(iter(self.waiting))
            scope = self.waiting.pop(node)
            with suppress(RecursionError):
                self.read_function(node, scope)
        self.learned.exports[self.source.path] = {n: shape for n, shape in self.top.names.items() if "." not in n}
        return self.found

    def read_scope(self, scope: Scope, body: Iterable[ast.stmt]) -> None:
        outer = self.scope
        for statement in body:
            self.scope = scope
            try:
                self.statement(statement)
            except RecursionError:  # nested too deep: the rest can still be read
                scope.is_looping = False
        self.scope = outer

    # ---- definitions

    def define_function(self, node: Function) -> None:
        """Note a function; its body is read later."""
        scope, key = self.scope, self.key(self.scope.qualname_of(node.name))
        decorators = {last_name(decorator) for decorator in node.decorator_list}
        for decorator in node.decorator_list:
            self.shape(decorator)
        for parameter, default in with_defaults(node.args).items():
            self.learned.learn_argument(key, parameter.arg, self.shape(default))
        self.learned.signatures[key] = tuple(parameter.arg for parameter in parameters(node.args))
        is_property = decorators & {"property", "cached_property"}
        scope.names[node.name] = self.known.returns.get(key, UNKNOWN) if is_property else Shape("function", name=key)
        is_method = isinstance(scope.node, ast.ClassDef)
        parent = scope.parent if is_method else scope  # methods do not see the names of their class
        class_key = scope.class_key if is_method and "staticmethod" not in decorators else ""
        self.waiting[node] = Scope(node, scope.qualname_of(node.name), parent, class_key)

    def define_class(self, node: ast.ClassDef) -> None:
        scope = Scope(node, self.scope.qualname_of(node.name), self.scope)
        scope.class_key = self.key(scope.qualname)
        bases = [self.shape(base) for base in node.bases]
        self.learned.bases[scope.class_key] = tuple(base.name for base in bases if base.kind == "class")
        self.read_scope(scope, node.body)
        is_read = len(self.learned.bases[scope.class_key]) == len(bases)
        for name, shape in scope.names.items():
            # What an Enum makes of its numbers hashes by their names.
            own = shape if is_read or shape not in (INT, NUMBER) else PLAIN
            self.learned.learn_attribute(scope.class_key, name, own)
        self.scope.names[node.name] = Shape("class", name=scope.class_key)

    def read_function(self, node: Function, scope: Scope) -> None:
        self.scope, key = scope, self.key(scope.qualname)
        for position, parameter in enumerate(parameters(node.args)):
            shape = promised(parameter.annotation, self.lookup)
            if position == 0 and scope.class_key:
                shape = Shape("instance", name=scope.class_key)
            elif shape == UNKNOWN:
                shape = join(UNKNOWN, self.known.arguments.get((key, parameter.arg), NEVER))
            scope.names[parameter.arg] = shape
        self.read_scope(scope, node.body)
        returned = container("list", joined(scope.yielded)) if scope.yielded else joined(scope.returned)
        promise = promised(node.returns, self.lookup)
        self.learned.returns[key] = returned if promise == UNKNOWN else promise

    def imports(self, node: ast.Import | ast.ImportFrom) -> None:
        home = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
        exports = self.known.exports.get(self.source.path_of(home[:-1], self.sources), {})
        for alias in node.names:
            name, is_whole = alias.name, isinstance(node, ast.Import) and not alias.asname
            if name == "*":
                self.scope.names.update(exports)
            else:
                name = name.partition(".")[0] if is_whole else name
                self.scope.names[alias.asname or name] = exports.get(name) or self.module(home + name)

    def module(self, name: str) -> Shape:
        path = self.source.path_of(name, self.sources)
        return Shape("module", name=path) if path else UNKNOWN

    # ---- statements

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.define_function(node)
            case ast.ClassDef():
                self.define_class(node)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self.assignment(node)
            case ast.For() | ast.AsyncFor():
                self.for_loop(node)
            case ast.While():
                self.shape(node.test)
                self.loop(node.body, node.orelse)
            case ast.If():
                self.branches(self.alternatives(node))
            case ast.Match():
                self.shape(node.subject)
                self.branches([*(case.body for case in node.cases), []])
            case _ if hasattr(node, "handlers"):  # `try`, also with `except*`, which Python 3.10 does not know
                attempt = cast(ast.Try, node)
                self.branches([[*attempt.body, *attempt.orelse], *(handler.body for handler in attempt.handlers)])
                self.block(attempt.finalbody)
            case ast.Return():
                self.scope.returned.append(self.shape(node.value))
            case ast.Raise(exc=ast.Call(args=arguments)):
                for argument in arguments:
                    self.shape(argument, SILENT)
            case ast.Assert():
                self.shape(node.test)
                self.shape(node.msg, SILENT)
            case ast.Global() | ast.Nonlocal():
                self.scope.shared.update(node.names)
            case ast.Import() | ast.ImportFrom():
                self.imports(node)
            case _:
                self.parts(node)

    def parts(self, node: ast.AST) -> None:
        """Read what a statement is made of, as in `with`."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.shape(child)
            elif isinstance(child, ast.stmt):
                self.statement(child)
            else:
                self.parts(child)

    def assignment(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
        match node:
            case ast.Assign():
                shape = self.assigned(node, node.targets, node.value)
                for target in node.targets:
                    self.assign(target, shape)
            case ast.AnnAssign():
                shape = self.assigned(node, [node.target], node.value)
                promise = promised(node.annotation, self.lookup)
                if node.value is not None or promise != UNKNOWN:
                    self.assign(node.target, shape if promise == UNKNOWN else promise)
            case ast.AugAssign():
                before, added = self.peek(node.target), self.shape(node.value)
                if isinstance(node.op, ast.Add):
                    self.report(node, "extends a list by a set", LISTS, added.order_depends_on)
                self.assign(node.target, operated(node.op, before, added))

    def assigned(self, node: ast.stmt, targets: Sequence[ast.expr], value: ast.expr | None) -> Shape:
        """The shape of an assigned value; `names = list(set(x))` is left alone if `names.sort()` follows."""
        start = len(self.found)
        shape = self.shape(value)
        if len(self.found) > start and is_sorted_later(self.source, dotted(targets[0]), node):
            del self.found[start:]
            return self.shape(value, SILENT)
        return shape

    def block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def alternatives(self, node: ast.If) -> list[list[ast.stmt]]:
        """The bodies of a chain of `if` and `elif`, which the parser nests one in the other."""
        bodies: list[list[ast.stmt]] = []
        rest: list[ast.stmt] = [node]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            self.shape(rest[0].test)
            bodies.append(rest[0].body)
            rest = rest[0].orelse
        return [*bodies, rest]

    def branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        """Each body from the same start; what follows knows the outcomes of those that do not leave."""
        before, outcomes = self.scope.names, list[dict[str, Shape]]()
        for body in bodies:
            self.scope.names = dict(before)
            self.block(body)
            if not (body and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)):
                outcomes.append(self.scope.names)
        self.scope.names = _merged(outcomes or [before])

    # ---- loops

    def loop(self, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        """Read a body twice, so that its top sees what its end assigned; inner loops are so read by the outermost."""
        is_outermost, self.scope.is_looping = not self.scope.is_looping, True
        for _ in range(1 + is_outermost):
            before = dict(self.scope.names)
            self.block(body)
            self.scope.names = _merged([before, self.scope.names])
        self.scope.is_looping = not is_outermost
        self.block(orelse)

    def for_loop(self, node: ast.For | ast.AsyncFor) -> None:
        weight, reason = LOOPS, "iterates over a set"
        if self.is_blind(node.body):
            weight = SILENT
        elif is_numbering(node.body):
            weight, reason = NUMBERS, "numbers the members of a set"
        shape = self.shape(node.iter, weight)
        self.report(node, reason, weight, shape.order_depends_on)
        self.assign(node.target, shape.member)
        self.loop(node.body, node.orelse)

    def is_blind(self, body: Sequence[ast.stmt]) -> bool:
        """Whether a loop body does the same in any order: fills sets, counts, checks."""
        return all(self.is_blind_statement(statement) for statement in body)

    def is_blind_statement(self, node: ast.stmt) -> bool:
        match node:
            case (
                ast.Pass()
                | ast.Continue()
                | ast.Assert()
                | ast.Raise()
                | ast.Delete()
                | ast.Return(value=None | ast.Constant())
                | ast.AugAssign(op=ast.Add() | ast.Sub(), target=ast.Name(), value=ast.Constant())
                | ast.Expr(value=ast.Call(func=ast.Name(id="print")) | ast.Constant())
            ):
                return True
            case ast.If() | ast.For():
                return self.is_blind([*node.body, *node.orelse])
            case ast.AugAssign(op=ast.BitOr() | ast.BitAnd() | ast.Sub()):
                return self.peek(node.target).kind == "set"
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name))):
                if name == "append":
                    return is_sorted_later(self.source, dotted(owner), node)
                return name in LOGGING | {"pop"} or (name in SET_CHANGES and self.peek(owner).kind == "set")
        return False


def _merged(outcomes: Sequence[dict[str, Shape]]) -> dict[str, Shape]:
    merged: dict[str, Shape] = {}
    for names in outcomes:
        for name, shape in names.items():
            merged[name] = join(merged.get(name, NEVER), shape)
    return merged
