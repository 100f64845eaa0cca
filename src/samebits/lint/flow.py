"""Data flow: the shape that every expression of some files may have, read in the order in which the code would run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from samebits.lint.shapes import (
    INT,
    MODULE,
    NEVER,
    NUMBER,
    PLAIN,
    UNKNOWN,
    Shape,
    annotated_shape,
    container,
    join,
    joined,
    operator_shape,
    returned_shape,
    uniform,
)
from samebits.lint.source import Function, Source, children, dotted, last_name, parameters

# Each reading uses what the one before has learned of functions and classes. With three, a value that four functions
# hand on from one to the next was lost, and a wrong line was named. Few files take more than five.
READINGS = 8
# Method → position of the argument that it puts into its object.
_FILLING = {"add": 0, "append": 0, "insert": 1, "setdefault": 1}
_COMPREHENSIONS = {ast.SetComp: "set", ast.ListComp: "list", ast.GeneratorExp: "list", ast.DictComp: "dict"}


class Flow:
    """The shapes of expressions. Functions and classes are identified by name alone, whichever file defines them.

    The sources are read together, again and again, until nothing new is learned. `imported` holds the data flow of
    other files, which are not read again.
    """

    def __init__(self, sources: Sequence[Source], imported: Iterable[Flow] = ()) -> None:
        self.shapes: dict[ast.AST, Shape] = {}
        # By name at the top of a file; `f()` is what a function returns, `f(x)` what it is given, `C.x` an attribute.
        self.shapes_by_name: dict[str, Shape] = {}
        self.learned: dict[str, Shape] = {}
        self.signatures: dict[str, list[str]] = {}
        self.bases: dict[str, list[str]] = {}
        for flow in imported:
            self.signatures |= flow.signatures
            self.bases |= flow.bases
            self.learned = _merged([self.learned, flow.learned])
        from_imports = self.learned
        # Loop → the shapes of names at its end, which they may have at its start, too.
        self.ends: dict[ast.AST, dict[str, Shape]] = {}
        for _ in range(READINGS):
            ends, self.shapes_by_name, self.learned, self.shapes = dict(self.ends), self.learned, dict(from_imports), {}
            for source in sources:
                _FileReader(self, source).read()
            if (self.learned, self.ends) == (self.shapes_by_name, ends):
                break

    def of(self, node: ast.AST) -> Shape:
        """Return the shape of an expression; of the target of an assignment, the shape of what is assigned."""
        return self.shapes.get(node, UNKNOWN)

    def record_shape(self, node: ast.AST, shape: Shape) -> Shape:
        """Record the shape of an expression, and return it; an expression that is read twice may have either shape."""
        self.shapes[node] = join(self.shapes[node], shape) if node in self.shapes else shape
        return shape

    def learn(self, name: str, value: Shape) -> None:
        before = self.learned.get(name, NEVER)
        # A set that is replaced by a list, maybe in another method, was put in order there.
        is_ordered = {before.kind, value.kind} == {"set", "list"} and not name.endswith(")")
        self.learned[name] = min(before, value, key=lambda one: one.kind) if is_ordered else join(before, value)

    def attribute(self, owner: Shape, name: str) -> Shape:
        """Return the shape of an attribute of a module, or of a class or the nearest of its bases that has it."""
        if owner.kind == "module":
            return self.shapes_by_name.get(name, UNKNOWN)
        classes = [owner.name] if owner.kind in ("instance", "class") else []
        for cls in classes:
            if f"{cls}.{name}" in self.shapes_by_name:
                return self.shapes_by_name[f"{cls}.{name}"]
            classes += [base for base in self.bases.get(cls, ()) if base not in classes]
        return UNKNOWN

    def result_of(self, maker: Shape) -> Shape:
        """Return the shape of the result of a function that is passed as a value, as `set` is in `defaultdict(set)`."""
        return maker.of[0] if maker.kind == "maker" else self.shapes_by_name.get(f"{maker.name}()", UNKNOWN)


@dataclass
class _Scope:
    """The names of a module, a class or a function."""

    parent: _Scope | None = None
    names: dict[str, Shape] = field(default_factory=dict)  # also of attributes of names: `a.b`
    shared: set[str] = field(default_factory=set)  # declared `global` or `nonlocal`
    returned: list[Shape] = field(default_factory=list)

    def home(self, name: str) -> _Scope | None:
        """Return the scope in which a name is found, this one or one around it; None where it is in none."""
        scope: _Scope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.parent
        return scope


class _FileReader:
    """A reader of one file. It reads each function after the scope that defines the function."""

    def __init__(self, flow: Flow, source: Source) -> None:
        self.flow, self.source = flow, source
        self.scope = self.top = _Scope()
        self.waiting: dict[Function, _Scope] = {}

    def read(self) -> None:
        self.body(self.top, self.source.tree.body)
        while self.waiting:
            node = next(iter(self.waiting))
            scope = self.waiting.pop(node)
            with suppress(RecursionError):
                self.function(node, scope)
        for name, value in self.top.names.items():
            if value != MODULE:
                self.flow.learn(name, value)

    def body(self, scope: _Scope, body: Iterable[ast.stmt]) -> None:
        outer = self.scope
        for statement in body:
            self.scope = scope
            with suppress(RecursionError):  # nested too deep: the rest can still be read
                self.statement(statement)
        self.scope = outer

    # ---- definitions

    def define_function(self, node: Function) -> None:
        """Record a function; its body is read later."""
        scope, name = self.scope, self.source.qualname(node)
        for parameter, default in parameters(node.args):
            if default is not None:
                self.flow.learn(f"{name}({parameter.arg})", self.value(default))
        self.flow.signatures[name] = [parameter.arg for parameter, _ in parameters(node.args)]
        shape, is_property = Shape("function", name=name), _decorators(node) & {"property", "cached_property"}
        scope.names[node.name] = self.flow.result_of(shape) if is_property else shape
        # Methods do not see the names of their class.
        self.waiting[node] = _Scope(scope.parent if self.is_in_class(node) else scope)

    def define_class(self, node: ast.ClassDef) -> None:
        scope, name = _Scope(self.scope), self.source.qualname(node)
        bases = [self.value(base) for base in node.bases]
        classes = self.flow.bases[name] = [base.name for base in bases if base.kind == "class"]
        self.body(scope, node.body)
        for attribute, value in scope.names.items():
            # With an unknown base, which may be Enum, a number may become a member, which hashes by its name.
            may_be_member = len(classes) < len(bases) and value in (INT, NUMBER)
            self.flow.learn(f"{name}.{attribute}", PLAIN if may_be_member else value)
        self.scope.names[node.name] = Shape("class", name=name)

    def function(self, node: Function, scope: _Scope) -> None:
        self.scope, name = scope, self.source.qualname(node)
        for parameter, _ in parameters(node.args):
            value = self.promised(parameter.annotation)
            if value == UNKNOWN:
                value = join(UNKNOWN, self.flow.shapes_by_name.get(f"{name}({parameter.arg})", NEVER))
            scope.names[parameter.arg] = value
        if self.is_in_class(node) and "staticmethod" not in _decorators(node):
            holder = self.source.qualname(self.source.parents[node])
            scope.names |= dict.fromkeys([*scope.names][:1], Shape("instance", name=holder))
        self.body(scope, node.body)
        promise = self.promised(node.returns)
        self.flow.learned[f"{name}()"] = joined(scope.returned) if promise == UNKNOWN else promise

    def is_in_class(self, node: Function) -> bool:
        return isinstance(self.source.parents[node], ast.ClassDef)

    def promised(self, annotation: ast.expr | None) -> Shape:
        def named(name: str) -> Shape | None:
            shape = self.lookup(name)
            return Shape("instance", name=shape.name) if shape and shape.kind == "class" else None

        return annotated_shape(annotation, named)

    # ---- statements

    def statement(self, node: Any) -> None:
        """Update the shapes of names as a statement changes them."""
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.define_function(node)
            case ast.ClassDef():
                self.define_class(node)
            case ast.Assign():
                value = self.value(node.value)
                for target in node.targets:
                    self.assign(target, value)
            case ast.AnnAssign():
                value, promise = self.value(node.value), self.promised(node.annotation)
                self.assign(node.target, value if promise == UNKNOWN else promise)
            case ast.AugAssign():
                self.assign(node.target, operator_shape(node.op, self.value(node.target), self.value(node.value)))
            case ast.For() | ast.AsyncFor():
                self.assign(node.target, self.value(node.iter).member)
                self.loop(node)
            case ast.While():
                self.value(node.test)
                self.loop(node)
            case ast.If():
                self.value(node.test)
                self.branches([node.body, node.orelse])
            case _ if hasattr(node, "handlers"):  # `try`, also with `except*`, which Python 3.10 does not know
                self.branches([[*node.body, *node.orelse], *(handler.body for handler in node.handlers)])
                self.block(node.finalbody)
            case ast.Return():
                self.scope.returned.append(self.value(node.value))
            case ast.Global() | ast.Nonlocal():
                self.scope.shared.update(node.names)
            case ast.Import():
                self.scope.names |= {alias.asname or alias.name.partition(".")[0]: MODULE for alias in node.names}
            case ast.ImportFrom():
                known = self.flow.shapes_by_name
                self.scope.names |= {alias.asname or alias.name: known.get(alias.name, MODULE) for alias in node.names}
            case _:
                self.parts(node)

    def parts(self, node: ast.AST) -> None:
        """Read the parts of a node, such as a `with` statement or an expression that stands by itself."""
        for child in children(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.stmt):
                self.statement(child)
            else:
                self.parts(child)

    def block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        """Read each body from the same start; afterwards, names have the shapes of each body that is not left early."""
        before, outcomes = self.scope.names, list[dict[str, Shape]]()
        for body in bodies:
            self.scope.names = dict(before)
            self.block(body)
            if not (body and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)):
                outcomes.append(self.scope.names)
        self.scope.names = _merged(outcomes or [before])

    def loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        before = self.scope.names
        self.scope.names = _merged([before, self.flow.ends.get(node, {})])
        self.block([*node.body, *node.orelse])
        self.flow.ends[node] = self.scope.names
        self.scope.names = _merged([before, self.scope.names])

    # ---- names

    def lookup(self, name: str) -> Shape | None:
        """Return the shape of a name, or of an attribute of a name as `dotted` writes it; None where it is unknown."""
        home = self.scope.home(name)
        return home.names[name] if home is not None else None

    def assign(self, target: ast.expr, value: Shape) -> None:
        self.flow.record_shape(target, value)
        match target:
            case ast.Name(id=name):
                home = (self.scope.home(name) or self.top) if name in self.scope.shared else self.scope
                home.names[name] = value
            case ast.Attribute():
                owner = self.value(target.value)
                if owner.kind in ("instance", "class"):
                    self.flow.learn(f"{owner.name}.{target.attr}", value)
                if name := dotted(target):
                    self.scope.names[name] = value
            case ast.Subscript():
                self.value(target.slice)
                self.grow(target.value, value)
            case ast.Starred():
                self.assign(target.value, container("list", value))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                is_paired = value.kind == "tuple" and len(value.of) == len(elements)
                for position, element in enumerate(elements):
                    self.assign(element, value.of[position] if is_paired else value.member)

    def grow(self, place: ast.expr, member: Shape) -> None:
        """Record a member that is put into a container."""
        value = self.value(place)
        if value.kind not in ("set", "list", "dict"):
            return
        members = [value.of[0], member]
        grown = container(value.kind, uniform(members) if value.kind == "dict" else joined(members))
        match place:
            case ast.Name(id=name):
                (self.scope.home(name) or self.scope).names[name] = grown
            case ast.Attribute():
                self.assign(place, grown)
            case ast.Subscript():
                self.grow(place.value, grown)

    # ---- expressions

    def value(self, node: ast.expr | None) -> Shape:
        """Read an expression, and return its shape."""
        return UNKNOWN if node is None else self.flow.record_shape(node, self._value(node))

    def _value(self, node: ast.expr) -> Shape:
        match node:
            case ast.Constant(value=constant):
                return PLAIN if isinstance(constant, str | bytes) else INT if isinstance(constant, int) else NUMBER
            case ast.Name():
                return self.lookup(node.id) or Shape("maker", (returned_shape(node.id),), node.id)
            case ast.Attribute():
                owner = self.value(node.value)
                return self.lookup(dotted(node)) or self.flow.attribute(owner, node.attr)
            case ast.Subscript():
                owner, _ = self.value(node.value), self.value(node.slice)
                if isinstance(node.slice, ast.Slice):
                    return container("list", owner.member) if owner.kind in ("list", "tuple") else UNKNOWN
                return owner.value if owner.kind == "dict" else owner.member
            case ast.Call():
                return self.call(node)
            case ast.NamedExpr():
                value = self.value(node.value)
                self.assign(node.target, value)
                return value
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self.enclosed(node)
            case ast.Yield() | ast.YieldFrom():
                value = self.value(node.value)
                self.scope.returned.append(container("list", value if isinstance(node, ast.Yield) else value.member))
                return UNKNOWN
            case ast.Starred():
                return self.value(node.value).member
            case ast.Dict():
                values = [self.value(part) for part in [*node.keys, *node.values]][len(node.keys) :]
                return container("dict", UNKNOWN if None in node.keys else uniform(values))
            case ast.Set() | ast.List() | ast.Tuple():
                values = [self.value(element) for element in node.elts]
                if isinstance(node, ast.Tuple) and not any(isinstance(element, ast.Starred) for element in node.elts):
                    return container("tuple", *values)
                return container("set" if isinstance(node, ast.Set) else "list", joined(values))
            case ast.BinOp():
                return operator_shape(node.op, self.value(node.left), self.value(node.right))
            case ast.UnaryOp():
                return self.value(node.operand)
            case ast.Await():
                return self.value(node.value)
            case ast.BoolOp():
                return joined([self.value(value) for value in node.values])
            case ast.IfExp():
                self.value(node.test)
                return join(self.value(node.body), self.value(node.orelse))
        self.parts(node)
        return INT if isinstance(node, ast.Compare) else PLAIN if isinstance(node, ast.JoinedStr) else UNKNOWN

    def enclosed(self, node: ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Shape:
        """Return the shape of an expression that has names of its own: a lambda, or a comprehension."""
        saved, self.scope.names = self.scope.names, dict(self.scope.names)
        if isinstance(node, ast.Lambda):
            self.scope.names |= {parameter.arg: UNKNOWN for parameter, _ in parameters(node.args)}
            shape = container("maker", self.value(node.body))
        else:
            for generator in node.generators:
                self.assign(generator.target, self.value(generator.iter).member)
                for condition in generator.ifs:
                    self.value(condition)
            parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
            shape = container(_COMPREHENSIONS[type(node)], [self.value(part) for part in parts][-1])
        self.scope.names = saved
        return shape

    def call(self, node: ast.Call) -> Shape:
        target, values = self.value(node.func), [self.value(argument) for argument in node.args]
        keywords = {keyword.arg: self.value(keyword.value) for keyword in node.keywords}
        if target.kind in ("function", "class"):
            return self.call_own(node, target, values, keywords)
        if isinstance(node.func, ast.Attribute):
            self.fill(node.func, values)
        elif target.kind == "maker" and not target.name:
            return self.flow.result_of(target)
        owner = self.flow.of(node.func.value) if isinstance(node.func, ast.Attribute) else None
        return returned_shape(
            last_name(node.func), owner, values, self.flow.result_of(values[0]) if values else UNKNOWN
        )

    def call_own(
        self, node: ast.Call, target: Shape, values: Sequence[Shape], keywords: dict[str | None, Shape]
    ) -> Shape:
        is_class = target.kind == "class"
        function = self.flow.attribute(target, "__init__").name if is_class else target.name
        is_bound = isinstance(node.func, ast.Attribute) and self.flow.of(node.func.value).kind == "instance"
        names = self.flow.signatures.get(function, [])[is_class or is_bound :]  # the first one is `self`
        for name, value in [*zip(names, values, strict=False), *keywords.items()]:
            self.flow.learn(f"{function}({name})", value)
        return Shape("instance", name=target.name) if is_class else self.flow.result_of(target)

    def fill(self, function: ast.Attribute, values: Sequence[Shape]) -> None:
        """Record what a method puts into its object."""
        owner, name = self.flow.of(function.value), function.attr
        position = _FILLING.get(name)
        if position is not None and position < len(values):
            self.grow(function.value, values[position])
        elif name in ("update", "extend") and owner.kind in ("set", "list"):
            self.grow(function.value, joined([value.member for value in values]))


def _decorators(node: Function) -> set[str]:
    return {last_name(decorator) for decorator in node.decorator_list}


def _merged(outcomes: Sequence[dict[str, Shape]]) -> dict[str, Shape]:
    merged: dict[str, Shape] = {}
    for names in outcomes:
        for name, value in names.items():
            before = merged.get(name, NEVER)
            merged[name] = value if before is NEVER or before is value else join(before, value)
    return merged
