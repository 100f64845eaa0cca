"""Expressions: which of them see the order of a set, and what shape they have."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Sequence

from samebits.lint.findings import ADDRESS, LISTS, LOOPS, NUMBERS, SILENT, WEAK, Finding
from samebits.lint.flow import callables
from samebits.lint.flow.learned import Learned, Scope
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
from samebits.lint.flow.source import Source, dotted, last_name, parameters
from samebits.lint.flow.uses import may_tie

# A comprehension: what it makes, and how likely it is that the order of what it goes through matters.
COMPREHENSIONS = {
    ast.SetComp: ("set", SILENT),
    ast.ListComp: ("list", LISTS),
    ast.GeneratorExp: ("list", LOOPS),
    ast.DictComp: ("dict", LOOPS),
}


class Expressions:
    """Knows what names stand for, and reads expressions.

    Calls of functions and classes of the files at hand are followed; other functions are known by name.
    """

    def __init__(self, source: Source, sources: Sequence[Source], known: Learned, learned: Learned) -> None:
        self.source, self.sources, self.known, self.learned = source, sources, known, learned
        self.scope = self.top = Scope(source.tree, "<module>")
        self.found: list[Finding] = []

    def report(self, node: ast.expr | ast.stmt, reason: str, weight: int, depends_on: frozenset[str]) -> None:
        if weight > SILENT and depends_on:
            line = self.source.lines[node.lineno - 1].strip()
            self.found.append(
                Finding(self.source.path, node.lineno, self.scope.qualname, line, reason, weight, depends_on)
            )

    # ---- names

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
        match node:
            case ast.Subscript():
                return entry(self.peek(node.value), node.slice)
            case ast.Attribute():
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
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                # A set with a single member has no order: `(only,) = found`.
                if len(elements) > 1 or isinstance(elements[0], ast.Starred):
                    self.report(target, "unpacks a set", LOOPS, shape.order_depends_on)
                is_paired = shape.kind == "tuple" and len(shape.of) == len(elements)
                for position, element in enumerate(elements):
                    self.assign(element, shape.of[position] if is_paired else shape.member)

    def assign_attribute(self, target: ast.Attribute, owner: Shape, shape: Shape) -> None:
        """Note what an attribute becomes, for this scope and for everything that has the object."""
        if owner.kind in ("instance", "class"):
            self.learned.learn_attribute(owner.name, target.attr, shape)
        if name := dotted(target):
            self.scope.names[name] = shape

    def grow(self, place: ast.expr, member: Shape) -> None:
        """Note a member that is put into a container."""
        shape = self.peek(place)
        if shape.kind not in ("set", "list", "dict"):
            return
        members = [shape.of[0], member]
        grown = container(shape.kind, uniform(members) if shape.kind == "dict" else joined(members))
        match place:
            case ast.Name(id=name):
                (self.scope.home(name) or self.scope).names[name] = grown
            case ast.Attribute():
                self.assign_attribute(place, self.peek(place.value), grown)
            case ast.Subscript():
                self.grow(place.value, grown)

    # ---- expressions

    def shape(self, node: ast.expr | None, cap: int = NUMBERS) -> Shape:
        """The shape of an expression; reports what in it depends on hashes or addresses.

        Args:
            node: the expression.
            cap: how much the order of the result matters to its user.
        """
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
                saved, unknown = self.scope.names, dict.fromkeys([each.arg for each in parameters(node.args)], UNKNOWN)
                self.scope.names = {**saved, **unknown}
                made = self.shape(node.body)
                self.scope.names = saved
                return container("maker", made)
            case ast.Yield():
                self.scope.yielded.append(self.shape(node.value))
                return UNKNOWN
            case ast.YieldFrom():
                self.scope.yielded.append(self.iterated(node.value, LOOPS))
                return UNKNOWN
            case ast.Starred():
                return self.iterated(node.value, min(cap, LISTS), "unpacks a set")
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self.comprehension(node, cap)
            case ast.Set() | ast.List() | ast.Tuple() | ast.Dict():
                return self.display(node, cap)
        return self.operation(node, cap)

    def name(self, node: ast.Name) -> Shape:
        known = self.lookup(node.id)
        if known is None and node.id == "hash" and isinstance(node.ctx, ast.Load):
            self.report(node, "depends on hash()", NUMBERS, UNKNOWN.hash_depends_on)
        made = callables.MADE.get(node.id)
        return known or (Shape("maker", (made,)) if made else UNKNOWN)

    def display(self, node: ast.Set | ast.List | ast.Tuple | ast.Dict, cap: int) -> Shape:
        """The shape of a container that is written out."""
        if isinstance(node, ast.Dict):
            shapes = [self.shape(part) for part in [*node.keys, *node.values]][len(node.keys) :]
            return container("dict", UNKNOWN if None in node.keys else uniform(shapes))
        cap = SILENT if isinstance(node, ast.Set) else cap
        is_starred = any(isinstance(element, ast.Starred) for element in node.elts)
        shapes = [self.shape(element, cap if isinstance(element, ast.Starred) else NUMBERS) for element in node.elts]
        if isinstance(node, ast.Tuple) and not is_starred:
            return container("tuple", *shapes)
        return container("set" if isinstance(node, ast.Set) else "list", joined(shapes))

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, cap: int) -> Shape:
        kind, weight = COMPREHENSIONS[type(node)]
        saved = dict(self.scope.names)
        for generator in node.generators:
            self.assign(generator.target, self.iterated(generator.iter, min(cap, weight)))
            for condition in generator.ifs:
                self.shape(condition)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        shapes = [self.shape(part) for part in parts]
        self.scope.names = saved
        return container(kind, shapes[-1])

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

    def iterated(self, node: ast.expr, weight: int, reason: str = "iterates over a set") -> Shape:
        """The shape of what a loop over an expression gives."""
        shape = self.shape(node, weight)
        self.report(node, reason, weight, shape.order_depends_on)
        return shape.member

    # ---- calls

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
        if name == "hash":
            return self.hashed(node, self.arguments(node))
        if name == "sum":
            return self.summed(node)
        return self.given(name, self.seen_arguments(node, name, cap))

    def given(self, name: str, shapes: Sequence[Shape]) -> Shape:
        return callables.function_result(name, shapes, self.made_by(shapes[0]) if shapes else UNKNOWN)

    def call_own(self, node: ast.Call, target: Shape, owner: Shape) -> Shape:
        key, is_class = target.name, target.kind == "class"
        if is_class:
            key = self.known.attribute(target, "__init__").name or key
        # The first one is `self`.
        names = self.known.signatures.get(key, ())[is_class or owner.kind == "instance" :]
        shapes = [self.shape(argument) for argument in node.args]
        for name, shape in zip(names, shapes, strict=False):
            self.learned.learn_argument(key, name, shape)
        for keyword in node.keywords:
            self.learned.learn_argument(key, keyword.arg or "", self.shape(keyword.value))
        return Shape("instance", name=target.name) if is_class else self.made_by(target)

    def made_by(self, maker: Shape) -> Shape:
        """What a function gives that is passed along, as `set` is in `defaultdict(set)`."""
        return maker.of[0] if maker.kind == "maker" else self.known.returns.get(maker.name, UNKNOWN)

    def call_method(self, node: ast.Call, function: ast.Attribute, owner: Shape, cap: int) -> Shape:
        name = seen_as = function.attr
        if name == "__hash__":
            return self.hashed(node, [owner])
        if name == "pop":
            self.report(node, "takes a member of a set with pop()", LOOPS, owner.order_depends_on)
        if dotted(function) in callables.BLIND_IN_NUMPY or (name == "update" and owner.kind == "set"):
            seen_as = "set"
        elif hasattr(builtins, name) and name != "map":  # hardly any is like its namesake, but `pool.map` is
            seen_as = ""
        shapes = self.seen_arguments(node, seen_as, cap)
        position = {"add": 0, "append": 0, "insert": 1, "setdefault": 1}.get(name, len(shapes))
        if position < len(shapes):
            self.grow(function.value, shapes[position])
        elif name in ("update", "extend") and owner.kind in ("set", "list"):
            self.grow(function.value, joined([shape.member for shape in shapes]))
        if (name in callables.KEEPING and shapes) or name in ("defaultdict", "deque"):
            return self.given(name, shapes)
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
        self.report(node, reason, min(cap, weight), frozenset().union(*(shape.order_depends_on for shape in shapes)))
        if any(keyword.arg == "key" and self.gives_address(keyword.value) for keyword in node.keywords):
            self.report(node, "orders by id()", NUMBERS, frozenset({ADDRESS}))
        if "seed" in name and ADDRESSED in shapes:
            self.report(node, "seeds with id()", NUMBERS, frozenset({ADDRESS}))
        return shapes

    def gives_address(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Lambda):
            return isinstance(function.body, ast.Call) and self.gives_address(function.body.func)
        return isinstance(function, ast.Name) and function.id == "id" and self.lookup("id") is None

    def hashed(self, node: ast.Call, shapes: Sequence[Shape]) -> Shape:
        # A class may well ask for the hash of a string to say what its own is.
        if not self.scope.qualname.endswith("__hash__"):
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
        if shapes:
            self.report(node, "sums over a set", WEAK, shapes[0].order_depends_on)
        return NUMBER
