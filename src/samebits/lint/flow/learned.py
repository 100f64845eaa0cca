"""What a round of reading learned, and what the names of a scope stand for."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from samebits.lint.flow.shapes import NEVER, UNKNOWN, Shape, join


@dataclass
class Learned:
    """What a round learned; functions and classes go by `path:qualified name`."""

    returns: dict[str, Shape] = field(default_factory=dict)
    signatures: dict[str, tuple[str, ...]] = field(default_factory=dict)
    arguments: dict[tuple[str, str], Shape] = field(default_factory=dict)
    attributes: dict[tuple[str, str], Shape] = field(default_factory=dict)
    bases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exports: dict[str, dict[str, Shape]] = field(default_factory=dict)

    def attribute(self, owner: Shape, name: str) -> Shape:
        """The shape of an attribute of a module, or of a class and the nearest base that has it."""
        if owner.kind == "module":
            return self.exports.get(owner.name, {}).get(name, UNKNOWN)
        classes = [owner.name] if owner.kind in ("instance", "class") else []
        for key in classes:
            if (key, name) in self.attributes:
                return self.attributes[key, name]
            classes += [base for base in self.bases.get(key, ()) if base not in classes]
        return UNKNOWN

    def learn_attribute(self, class_key: str, name: str, shape: Shape) -> None:
        """Note what is assigned; a set that is replaced by a list, maybe in another method, was put in order there."""
        before = self.attributes.get((class_key, name), NEVER)
        if {before.kind, shape.kind} == {"set", "list"}:
            self.attributes[class_key, name] = before if before.kind == "list" else shape
        else:
            self.attributes[class_key, name] = join(before, shape)

    def learn_argument(self, key: str, name: str, shape: Shape) -> None:
        """Note what a function is given."""
        self.arguments[key, name] = join(self.arguments.get((key, name), NEVER), shape)


@dataclass
class Scope:
    """A module, class or function; a method, too, has the `class_key` of its class."""

    node: ast.AST
    qualname: str
    parent: Scope | None = None
    class_key: str = ""
    names: dict[str, Shape] = field(default_factory=dict)  # also of attributes of names: `a.b`
    shared: set[str] = field(default_factory=set)  # declared `global` or `nonlocal`
    returned: list[Shape] = field(default_factory=list)
    yielded: list[Shape] = field(default_factory=list)
    is_looping: bool = False

    def qualname_of(self, name: str) -> str:
        """The qualified name of what is defined here."""
        if isinstance(self.node, ast.Module):
            return name
        return f"{self.qualname}.{name}" if isinstance(self.node, ast.ClassDef) else f"{self.qualname}.<locals>.{name}"

    def home(self, name: str) -> Scope | None:
        """The scope in which a name is found from here."""
        scope: Scope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.parent
        return scope
