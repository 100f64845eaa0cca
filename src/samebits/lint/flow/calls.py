"""Calls: what they see of the order of a set, and what they give."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from samebits.lint.findings import ADDRESS, LOOPS, NUMBERS, SILENT, WEAK
from samebits.lint.flow import callables
from samebits.lint.flow.names import Names
from samebits.lint.flow.shapes import ADDRESSED, INT, NUMBER, UNKNOWN, Shape, joined
from samebits.lint.flow.source import dotted, last_name
from samebits.lint.flow.uses import may_tie


class Calls(Names):
    """Reads calls; those of functions and classes of the files at hand are followed, others are known by name."""

    def call(self, node: ast.Call, cap: int) -> Shape:
        function, name, owner = node.func, last_name(node.func), UNKNOWN
        if isinstance(function, ast.Attribute):
            owner = self.shape(function.value)
            target: Shape | None = self.attribute(owner, function)
        else:
            target = self.lookup(name) if name else self.shape(function)
        if target is not None and target.kind in ("function", "class"):
            return self.call_own(node, target, owner)
        if isinstance(function, ast.Attribute):
            return self.call_method(node, function, owner, cap)
        if target is not None and (target.kind == "maker" or hasattr(builtins, name)):  # some other `map`
            self.arguments(node)
            return self.made_by(target)
        return self.call_function(node, name, cap)

    def call_own(self, node: ast.Call, target: Shape, owner: Shape) -> Shape:
        key = target.name
        if target.kind == "class":
            key = self.known.attribute(target, "__init__").name or key
        names = self.known.signatures.get(key, ())
        if target.kind == "class" or owner.kind == "instance":
            names = names[1:]
        shapes = [self.shape(argument) for argument in node.args]
        for name, shape in zip(names, shapes, strict=False):
            self.learned.learn_argument(key, name, shape)
        for keyword in node.keywords:
            self.learned.learn_argument(key, keyword.arg or "", self.shape(keyword.value))
        return Shape("instance", name=target.name) if target.kind == "class" else self.made_by(target)

    def made_by(self, maker: Shape) -> Shape:
        """What a function gives that is passed along, as `set` is in `defaultdict(set)`."""
        return maker.of[0] if maker.kind == "maker" else self.known.returns.get(maker.name, UNKNOWN)

    def call_function(self, node: ast.Call, name: str, cap: int) -> Shape:
        if name == "hash":
            return self.hashed(node, self.arguments(node))
        if name == "sum":
            return self.summed(node)
        shapes = self.seen_arguments(node, name, cap)
        return callables.function_result(name, shapes, self.made_by(shapes[0]) if shapes else UNKNOWN)

    def call_method(self, node: ast.Call, function: ast.Attribute, owner: Shape, cap: int) -> Shape:
        name = function.attr
        if name == "__hash__":
            return self.hashed(node, [owner])
        if name == "pop" and owner.is_hash_ordered:
            self.report(node, "takes a member of a set with pop()", LOOPS, owner.order_depends_on)
        seen_as = name
        if dotted(function) in callables.BLIND_IN_NUMPY or (name == "update" and owner.kind == "set"):
            seen_as = "set"
        elif hasattr(builtins, name) and name != "map":  # hardly any is like its namesake, but `pool.map` is
            seen_as = ""
        shapes = self.seen_arguments(node, seen_as, cap)
        self.change(function, owner, shapes)
        if (name in callables.KEEPING and shapes) or name in ("defaultdict", "deque"):
            return callables.function_result(name, shapes, self.made_by(shapes[0]) if shapes else UNKNOWN)
        return callables.method_result(owner, name, shapes)

    def arguments(self, node: ast.Call, cap: int = NUMBERS) -> list[Shape]:
        """The shapes of the positional arguments."""
        shapes = [self.shape(argument, cap) for argument in node.args]
        for keyword in node.keywords:
            self.shape(keyword.value)
        return shapes

    def seen_arguments(self, node: ast.Call, name: str, cap: int) -> list[Shape]:
        """The shapes of the arguments; reports sets among them if a function of this name sees their order."""
        reason, weight = f"orders a set with {name}()", callables.ORDERING.get(name, SILENT)
        if name in callables.CHOOSING and may_tie(node):
            reason, weight = f"leaves ties to the order of a set: {name}() with a key", WEAK
            cap = min(cap, WEAK) if name == "sorted" else WEAK
        elif name in callables.BLIND:
            cap = SILENT
        elif name not in callables.KEEPING and (not weight or name in callables.RANKING):
            cap = NUMBERS
        shapes = self.arguments(node, cap)
        depends_on = frozenset[str]().union(*(shape.order_depends_on for shape in shapes))
        self.report(node, reason, min(cap, weight), depends_on)
        self.look_for_addresses(node, name, shapes)
        return shapes

    def look_for_addresses(self, node: ast.Call, name: str, shapes: Sequence[Shape]) -> None:
        """Report what orders by `id()`, and seeds that are one."""
        keys = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
        if keys and self.gives_address(keys[0]):
            self.report(node, "orders by id()", NUMBERS, frozenset({ADDRESS}))
        if "seed" in name and ADDRESSED in shapes:
            self.report(node, "seeds with id()", NUMBERS, frozenset({ADDRESS}))

    def gives_address(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Lambda):
            return isinstance(function.body, ast.Call) and self.gives_address(function.body.func)
        return isinstance(function, ast.Name) and function.id == "id" and self.lookup("id") is None

    def hashed(self, node: ast.Call, shapes: Sequence[Shape]) -> Shape:
        # A class may well ask for the hash of a string to say what its own is.
        is_own_hash = self.scope.qualname.endswith("__hash__")
        if not is_own_hash:
            depends_on = frozenset[str]().union(*(shape.hash_depends_on for shape in shapes))
            self.report(node, "depends on hash()", NUMBERS, depends_on)
        return INT

    def summed(self, node: ast.Call) -> Shape:
        """Floats round in another way in another order, integers add up to the same."""
        start = len(self.found)
        shapes = self.arguments(node, WEAK)
        if shapes and shapes[0].member == INT:
            self.found[start:] = [finding for finding in self.found[start:] if finding.weight > WEAK]
            return INT
        if shapes and shapes[0].is_hash_ordered:
            self.report(node, "sums over a set", WEAK, shapes[0].order_depends_on)
        return NUMBER

    def change(self, function: ast.Attribute, owner: Shape, shapes: Sequence[Shape]) -> None:
        """Note what a method puts into its owner."""
        position = {"add": 0, "append": 0, "insert": 1, "setdefault": 1}.get(function.attr, len(shapes))
        if position < len(shapes):
            self.grow(function.value, shapes[position])
        elif function.attr in ("update", "extend") and owner.kind in ("set", "list"):
            self.grow(function.value, joined([shape.member for shape in shapes]))
