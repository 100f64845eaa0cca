"""Expressions: which of them see the order of a set, and what shape they have."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from samebits.lint.findings import ADDRESS, LISTS, LOOPS, NUMBERS, SILENT
from samebits.lint.flow.callables import MADE
from samebits.lint.flow.calls import Calls
from samebits.lint.flow.shapes import (
    ADDRESSED,
    INT,
    NUMBER,
    PLAIN,
    UNKNOWN,
    Shape,
    container,
    entry,
    join,
    joined,
    operated,
    uniform,
)
from samebits.lint.flow.source import parameters


class Expressions(Calls):
    """Reads expressions."""

    def shape(self, node: ast.expr | None, cap: int = NUMBERS) -> Shape:
        match node:
            case None:
                return UNKNOWN
            case ast.Constant(value=value):
                return PLAIN if isinstance(value, str | bytes) else INT if isinstance(value, int) else NUMBER
            case ast.Name():
                return self.name(node)
            case ast.Attribute():
                return self.attribute(self.shape(node.value), node)
            case ast.Subscript():
                owner = self.shape(node.value)
                self.shape(node.slice)
                return entry(owner, node.slice)
            case ast.Call():
                return self.call(node, cap)
            case ast.NamedExpr():
                shape = self.shape(node.value)
                self.assign(node.target, shape)
                return shape
            case ast.Lambda():
                unknown = dict.fromkeys([each.arg for each in parameters(node.args)], UNKNOWN)
                saved, self.scope.names = self.scope.names, {**self.scope.names, **unknown}
                made = self.shape(node.body)
                self.scope.names = saved
                return container("maker", made)
            case ast.Yield():
                self.scope.yielded.append(self.shape(node.value))
                return UNKNOWN
            case ast.YieldFrom():
                self.scope.yielded.append(self.iterated(node.value, LOOPS))
                return UNKNOWN
        return self.display(node, cap)

    def display(self, node: ast.expr, cap: int) -> Shape:
        """The shape of a container that is written out, or of a comprehension."""
        match node:
            case ast.Set():
                return container("set", self.members(node.elts, SILENT))
            case ast.Tuple() if not any(isinstance(element, ast.Starred) for element in node.elts):
                return container("tuple", *[self.shape(element) for element in node.elts])
            case ast.List() | ast.Tuple():
                return container("list", self.members(node.elts, cap))
            case ast.Starred():
                return self.iterated(node.value, min(cap, LISTS), "unpacks a set")
            case ast.Dict():
                shapes = [self.shape(part) for part in [*node.keys, *node.values]][len(node.keys) :]
                return container("dict", UNKNOWN if None in node.keys else uniform(shapes))
            case ast.SetComp():
                return container("set", self.comprehension(node.generators, [node.elt], SILENT))
            case ast.ListComp():
                return container("list", self.comprehension(node.generators, [node.elt], min(cap, LISTS)))
            case ast.GeneratorExp():
                return container("list", self.comprehension(node.generators, [node.elt], min(cap, LOOPS)))
            case ast.DictComp():
                return container("dict", self.comprehension(node.generators, [node.key, node.value], min(cap, LOOPS)))
        return self.operation(node, cap)

    def operation(self, node: ast.expr, cap: int) -> Shape:
        """The shape of what operators give."""
        match node:
            case ast.BinOp():
                left, right = self.shape(node.left, cap), self.shape(node.right, cap)
                if ADDRESSED in (left, right):
                    self.report(node, "computes with id()", NUMBERS, frozenset({ADDRESS}))
                return operated(node.op, left, right)
            case ast.UnaryOp():
                return self.shape(node.operand)
            case ast.BoolOp():
                return joined([self.shape(value, cap) for value in node.values])
            case ast.IfExp():
                self.shape(node.test)
                return join(self.shape(node.body, cap), self.shape(node.orelse, cap))
            case ast.Compare():
                self.shape(node.left)
                for operator, operand in zip(node.ops, node.comparators, strict=True):
                    self.shape(operand, SILENT if isinstance(operator, ast.In | ast.NotIn) else NUMBERS)
                return INT
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.shape(child, cap)
        return PLAIN if isinstance(node, ast.JoinedStr) else UNKNOWN

    def name(self, node: ast.Name) -> Shape:
        known = self.lookup(node.id)
        if known is None and node.id == "hash" and isinstance(node.ctx, ast.Load):
            self.report(node, "depends on hash()", NUMBERS, UNKNOWN.hash_depends_on)
        return known or (Shape("maker", (MADE[node.id],)) if node.id in MADE else UNKNOWN)

    def members(self, elements: Sequence[ast.expr], cap: int) -> Shape:
        return joined([self.shape(node, cap if isinstance(node, ast.Starred) else NUMBERS) for node in elements])

    def iterated(self, node: ast.expr, weight: int, reason: str = "iterates over a set") -> Shape:
        """The shape of what a loop over an expression gives."""
        shape = self.shape(node, weight)
        if shape.is_hash_ordered:
            self.report(node, reason, weight, shape.order_depends_on)
        return shape.member

    def comprehension(
        self, generators: Sequence[ast.comprehension], elements: Sequence[ast.expr], weight: int
    ) -> Shape:
        """The shape of the last element; `weight` is that of iterating over a set in it."""
        saved = dict(self.scope.names)
        for generator in generators:
            self.assign(generator.target, self.iterated(generator.iter, weight))
            for condition in generator.ifs:
                self.shape(condition)
        shapes = [self.shape(element) for element in elements]
        self.scope.names = saved
        return shapes[-1]
