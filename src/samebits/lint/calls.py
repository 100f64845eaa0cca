"""Calls: what they see of the order of a set, and what they give."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from samebits.lint.callables import (
    BLIND_FUNCTIONS,
    BLIND_METHODS,
    CHOOSING,
    CONVERTING,
    GROWING_METHODS,
    KEEPING,
    ORDERING,
    RANKING,
    SET_UPDATES,
    function_result,
    method_result,
)
from samebits.lint.findings import LOOPS, NUMBERS, SILENT, WEAK
from samebits.lint.names import Names
from samebits.lint.shapes import INT, NUMBER, UNKNOWN, Shape, joined
from samebits.lint.source import dotted, last_name
from samebits.lint.uses import may_tie


class Calls(Names):
    """Reads calls."""

    def call(self, node: ast.Call, cap: int) -> Shape:
        """The shape of what a call gives."""
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
        """A call of a function or class of the files at hand: note what it is given."""
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
        """A call of a function that is known by name at best."""
        if name == "hash":
            return self.hashed(node, self.arguments(node))
        if name == "sum":
            return self.summed(node)
        shapes = self.seen_arguments(node, name, cap, is_blind=name in BLIND_FUNCTIONS, weight=ORDERING.get(name))
        return function_result(name, shapes, self.made_by(shapes[0]) if shapes else UNKNOWN)

    def call_method(self, node: ast.Call, function: ast.Attribute, owner: Shape, cap: int) -> Shape:
        """A call of a method, or of a function of a module, that is known by name at best."""
        name = function.attr
        if name == "__hash__":
            return self.hashed(node, [owner])
        if name == "pop" and owner.is_hash_ordered:
            self.report(node, "takes a member of a set with pop()", LOOPS)
        is_blind = bool({name, dotted(function)} & BLIND_METHODS) or (name in SET_UPDATES and owner.kind == "set")
        # Hardly any method is like the builtin function of its name, but `pool.map` is.
        weight = ORDERING.get(name) if name == "map" or not hasattr(builtins, name) else None
        shapes = self.seen_arguments(node, name, cap, is_blind, weight)
        self.change(function, owner, shapes)
        if (name in KEEPING and shapes) or name in ("defaultdict", "deque"):
            return function_result(name, shapes, self.made_by(shapes[0]) if shapes else UNKNOWN)
        return method_result(owner, name, shapes)

    def arguments(self, node: ast.Call, cap: int = NUMBERS) -> list[Shape]:
        """The shapes of the positional arguments."""
        shapes = [self.shape(argument, cap) for argument in node.args]
        for keyword in node.keywords:
            self.shape(keyword.value)
        return shapes

    def seen_arguments(self, node: ast.Call, name: str, cap: int, is_blind: bool, weight: int | None) -> list[Shape]:
        """The shapes of the arguments; reports sets among them if the call sees their order."""
        if is_blind:
            is_choosing = name in CHOOSING and may_tie(node)
            cap = weight = SILENT if not is_choosing else min(cap, WEAK) if name == "sorted" else WEAK
            reason = f"leaves ties to the order of a set: {name}() with a key"
        elif weight is not None:
            cap = NUMBERS if name in RANKING else cap
            reason = f"orders a set with {name}()"
        else:
            return self.arguments(node, cap if name in KEEPING | CONVERTING else NUMBERS)
        shapes = self.arguments(node, cap)
        if any(shape.is_hash_ordered for shape in shapes):
            self.report(node, reason, min(cap, weight))
        return shapes

    def hashed(self, node: ast.Call, shapes: Sequence[Shape]) -> Shape:
        """`hash()` of values of these shapes; a class may well call it to say what its own hash is."""
        is_own_hash = self.scope.qualname.endswith("__hash__")
        if not is_own_hash and not all(shape.has_seedless_hash for shape in shapes):
            self.report(node, "depends on hash()", NUMBERS)
        return INT

    def summed(self, node: ast.Call) -> Shape:
        """`sum()`: floats round in another way in another order, integers add up to the same."""
        start = len(self.found)
        shapes = self.arguments(node, WEAK)
        if shapes and shapes[0].member == INT:
            self.found[start:] = [finding for finding in self.found[start:] if finding.weight > WEAK]
            return INT
        if shapes and shapes[0].is_hash_ordered:
            self.report(node, "sums over a set", WEAK)
        return NUMBER

    def change(self, function: ast.Attribute, owner: Shape, shapes: Sequence[Shape]) -> None:
        """Note what a method puts into its owner."""
        name = function.attr
        position = GROWING_METHODS.get(name, len(shapes))
        if position < len(shapes):
            self.grow(function.value, shapes[position])
        elif name in ("update", "extend", "symmetric_difference_update") and owner.kind in ("set", "list"):
            self.grow(function.value, joined([shape.member for shape in shapes]))
