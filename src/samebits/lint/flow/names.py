"""What names, attributes and entries stand for while a file is read."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Sequence

from samebits.lint.findings import LOOPS, NUMBERS, SILENT, Finding
from samebits.lint.flow.facts import Facts, Scope
from samebits.lint.flow.shapes import UNKNOWN, Shape, container, entry, joined, uniform
from samebits.lint.flow.source import Source, dotted


class Names(ABC):
    """Looks names up and assigns them; a subclass knows the shapes of expressions."""

    def __init__(self, source: Source, sources: Sequence[Source], known: Facts, learned: Facts) -> None:
        self.source, self.sources, self.known, self.learned = source, sources, known, learned
        self.scope = self.top = Scope(source.tree, "<module>")
        self.found: list[Finding] = []

    @abstractmethod
    def shape(self, node: ast.expr | None, cap: int = NUMBERS) -> Shape:
        """The shape of an expression; reports what in it depends on the hash seed.

        Args:
            node: the expression.
            cap: how much the order of the result matters to its user.
        """

    def report(self, node: ast.expr | ast.stmt, reason: str, weight: int, depends_on: frozenset[str]) -> None:
        if weight > SILENT and depends_on:
            line = self.source.lines[node.lineno - 1].strip()
            self.found.append(
                Finding(self.source.path, node.lineno, self.scope.qualname, line, reason, weight, depends_on)
            )

    def key(self, qualname: str) -> str:
        return f"{self.source.path}:{qualname}"

    def lookup(self, name: str) -> Shape | None:
        """The shape of a name, or of an attribute of a name as `dotted` writes it."""
        home = self.scope.home(name)
        return home.names[name] if home is not None else None

    def attribute(self, owner: Shape, node: ast.Attribute) -> Shape:
        """The shape of an attribute whose owner has been read."""
        return self.lookup(dotted(node)) or self.known.attribute(owner, node.attr)

    def peek(self, node: ast.expr) -> Shape:
        """The shape of a name, an attribute or an entry, without reporting anything."""
        if isinstance(node, ast.Subscript):
            return entry(self.peek(node.value), node.slice)
        if isinstance(node, ast.Attribute):
            return self.attribute(self.peek(node.value), node)
        return self.lookup(dotted(node)) or UNKNOWN

    def assign(self, target: ast.expr, shape: Shape) -> None:
        match target:
            case ast.Name(id=name):
                home = (self.scope.home(name) or self.top) if name in self.scope.shared else self.scope
                home.names[name] = shape
            case ast.Attribute():
                self.assign_attribute(target, self.shape(target.value), shape)
            case ast.Subscript():
                self.shape(target.slice)
                self.grow(target.value, shape)
            case ast.Starred():
                self.assign(target.value, container("list", shape))
            case ast.Tuple() | ast.List():
                self.unpack(target, shape)

    def assign_attribute(self, target: ast.Attribute, owner: Shape, shape: Shape) -> None:
        """Note what an attribute becomes, for this scope and for everything that has the object."""
        if owner.kind in ("instance", "class"):
            self.learned.learn_attribute(owner.name, target.attr, shape)
        if name := dotted(target):
            self.scope.names[name] = shape

    def unpack(self, target: ast.Tuple | ast.List, shape: Shape) -> None:
        # A set with a single member has no order: `(only,) = found`.
        is_single = len(target.elts) == 1 and not isinstance(target.elts[0], ast.Starred)
        if shape.is_hash_ordered and not is_single:
            self.report(target, "unpacks a set", LOOPS, shape.order_depends_on)
        is_paired = shape.kind == "tuple" and len(shape.of) == len(target.elts)
        for position, element in enumerate(target.elts):
            self.assign(element, shape.of[position] if is_paired else shape.member)

    def grow(self, place: ast.expr, member: Shape) -> None:
        """Note a member that is put into a container."""
        shape = self.peek(place)
        if shape.kind not in ("set", "list", "dict"):
            return
        members = [shape.of[0], member]
        grown = container(shape.kind, uniform(members) if shape.kind == "dict" else joined(members))
        if isinstance(place, ast.Name):
            (self.scope.home(place.id) or self.scope).names[place.id] = grown
        elif isinstance(place, ast.Attribute):
            self.assign_attribute(place, self.peek(place.value), grown)
        elif isinstance(place, ast.Subscript):
            self.grow(place.value, grown)
