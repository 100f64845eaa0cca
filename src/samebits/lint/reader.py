"""A file, read in the order in which it would run: what names stand for, and what sees the order of a set."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from samebits.lint import calls
from samebits.lint.findings import ADDRESS, LISTS, LOOPS, NUMBERS, SILENT, WEAK, Finding
from samebits.lint.source import Function, Source, dotted, last_name, parameters, with_defaults
from samebits.lint.values import (
    ADDRESSED,
    INT,
    NEVER,
    NUMBER,
    PLAIN,
    UNKNOWN,
    Shape,
    container,
    entry,
    join,
    joined,
    operated,
    promised,
    uniform,
)

# What is imported: a module, or a name that no file at hand defines.
MODULE = Shape("module")
# A comprehension: what it makes, and how likely it is that the order of what it goes through matters.
COMPREHENSIONS = {
    ast.SetComp: ("set", SILENT),
    ast.ListComp: ("list", LISTS),
    ast.GeneratorExp: ("list", LOOPS),
    ast.DictComp: ("dict", LOOPS),
}


@dataclass
class Learned:
    """What a reading of all files learned: functions and classes go by their names, in whatever file they stand.

    Attributes:
        values: of names at the top of a file; `f()` is what a function returns, `f(x)` what it is given, `C.x` an
            attribute.
        signatures: the parameters of functions.
        bases: of classes.
    """

    values: dict[str, Shape] = field(default_factory=dict)
    signatures: dict[str, list[str]] = field(default_factory=dict)
    bases: dict[str, list[str]] = field(default_factory=dict)

    def learn(self, name: str, value: Shape) -> None:
        before = self.values.get(name, NEVER)
        # A set that is replaced by a list, maybe in another method, was put in order there.
        is_ordered = {before.kind, value.kind} == {"set", "list"} and not name.endswith(")")
        self.values[name] = min(before, value, key=lambda one: one.kind) if is_ordered else join(before, value)

    def of(self, name: str) -> Shape:
        return self.values.get(name, UNKNOWN)

    def attribute(self, owner: Shape, name: str) -> Shape:
        """Of a module, or of a class and the nearest base that has it."""
        if owner.kind == "module":
            return self.of(name)
        classes = [owner.name] if owner.kind in ("instance", "class") else []
        for one in classes:
            if f"{one}.{name}" in self.values:
                return self.values[f"{one}.{name}"]
            classes += [base for base in self.bases.get(one, ()) if base not in classes]
        return UNKNOWN


@dataclass
class Scope:
    """A module, a class or a function; a method has the name of its class in `owner`."""

    qualname: str
    parent: Scope | None = None
    is_class: bool = False
    owner: str = ""
    names: dict[str, Shape] = field(default_factory=dict)  # also of attributes of names: `a.b`
    shared: set[str] = field(default_factory=set)  # declared `global` or `nonlocal`
    returned: list[Shape] = field(default_factory=list)
    yielded: list[Shape] = field(default_factory=list)
    is_looping: bool = False

    def qualname_of(self, name: str) -> str:
        """The qualified name of what is defined here."""
        if self.parent is None:
            return name
        return f"{self.qualname}.{name}" if self.is_class else f"{self.qualname}.<locals>.{name}"

    def home(self, name: str) -> Scope | None:
        """The scope in which a name is found from here."""
        scope: Scope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.parent
        return scope


class Reader:
    """Reads a file; calls of its own functions and classes are followed, others are known by name.

    Args:
        source: the file.
        known: what an earlier reading of all files learned.
        learned: what this one does.
    """

    def __init__(self, source: Source, known: Learned, learned: Learned) -> None:
        self.source, self.known, self.learned = source, known, learned
        self.scope = self.top = Scope("<module>")
        self.found: list[Finding] = []
        self.waiting: dict[Function, Scope] = {}

    def read(self) -> list[Finding]:
        """What was found; functions are read after the scope in which they are defined."""
        self.read_scope(self.top, self.source.tree.body)
        while self.waiting:
            node = next(iter(self.waiting))
            scope = self.waiting.pop(node)
            with suppress(RecursionError):
                self.read_function(node, scope)
        for name, value in self.top.names.items():
            if value != MODULE:
                self.learned.learn(name, value)
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

    def report(self, node: ast.expr | ast.stmt, reason: str, weight: int, depends_on: frozenset[str]) -> None:
        if weight > SILENT and depends_on:
            line, where = self.source.lines[node.lineno - 1].strip(), self.scope.qualname
            self.found.append(Finding(self.source.path, node.lineno, where, line, reason, weight, depends_on))

    # ---- definitions

    def define_function(self, node: Function) -> None:
        """Note a function; its body is read later."""
        scope, name = self.scope, self.scope.qualname_of(node.name)
        decorators = {last_name(decorator) for decorator in node.decorator_list}
        for decorator in node.decorator_list:
            self.value(decorator)
        for parameter, default in with_defaults(node.args).items():
            self.learned.learn(f"{name}({parameter.arg})", self.value(default))
        self.learned.signatures[name] = [parameter.arg for parameter in parameters(node.args)]
        is_property = decorators & {"property", "cached_property"}
        own = self.known.of(f"{name}()") if is_property else Shape("function", name=name)
        scope.names[node.name] = own
        parent = scope.parent if scope.is_class else scope  # methods do not see the names of their class
        owner = scope.qualname if scope.is_class and "staticmethod" not in decorators else ""
        self.waiting[node] = Scope(name, parent, owner=owner)

    def define_class(self, node: ast.ClassDef) -> None:
        scope = Scope(self.scope.qualname_of(node.name), self.scope, is_class=True)
        bases = [self.value(base) for base in node.bases]
        own = self.learned.bases[scope.qualname] = [base.name for base in bases if base.kind == "class"]
        self.read_scope(scope, node.body)
        for name, value in scope.names.items():
            # What an Enum makes of its numbers hashes by their names.
            is_made_over = len(own) < len(bases) and value in (INT, NUMBER)
            self.learned.learn(f"{scope.qualname}.{name}", PLAIN if is_made_over else value)
        self.scope.names[node.name] = Shape("class", name=scope.qualname)

    def read_function(self, node: Function, scope: Scope) -> None:
        self.scope, name = scope, scope.qualname
        for position, parameter in enumerate(parameters(node.args)):
            value = self.promised(parameter.annotation)
            if position == 0 and scope.owner:
                value = Shape("instance", name=scope.owner)
            elif value == UNKNOWN:
                value = join(UNKNOWN, self.known.values.get(f"{name}({parameter.arg})", NEVER))
            scope.names[parameter.arg] = value
        self.read_scope(scope, node.body)
        returned = container("list", joined(scope.yielded)) if scope.yielded else joined(scope.returned)
        promise = self.promised(node.returns)
        self.learned.values[f"{name}()"] = returned if promise == UNKNOWN else promise

    def promised(self, annotation: ast.expr | None) -> Shape:
        own = self.lookup(annotation.id) if isinstance(annotation, ast.Name) else None
        return Shape("instance", name=own.name) if own and own.kind == "class" else promised(annotation)

    # ---- statements

    def statement(self, node: Any) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.define_function(node)
            case ast.ClassDef():
                self.define_class(node)
            case ast.Assign():
                value = self.assigned(node, node.targets[0], node.value)
                for target in node.targets:
                    self.assign(target, value)
            case ast.AnnAssign():
                value, promise = self.assigned(node, node.target, node.value), self.promised(node.annotation)
                self.assign(node.target, value if promise == UNKNOWN else promise)
            case ast.AugAssign():
                before, added = self.peek(node.target), self.value(node.value)
                if isinstance(node.op, ast.Add):
                    self.report(node, "extends a list by a set", LISTS, added.order_depends_on)
                self.assign(node.target, operated(node.op, before, added))
            case ast.For() | ast.AsyncFor():
                self.for_loop(node)
            case ast.While():
                self.value(node.test)
                self.loop([*node.body, *node.orelse])
            case ast.If():
                self.value(node.test)
                self.branches([node.body, node.orelse])
            case ast.Match():
                self.value(node.subject)
                self.branches([*(case.body for case in node.cases), []])
            case _ if hasattr(node, "handlers"):  # `try`, also with `except*`, which Python 3.10 does not know
                self.branches([[*node.body, *node.orelse], *(handler.body for handler in node.handlers)])
                self.block(node.finalbody)
            case ast.Return():
                self.scope.returned.append(self.value(node.value))
            case ast.Raise(exc=ast.Call(args=arguments)):
                for argument in arguments:
                    self.value(argument, SILENT)
            case ast.Assert():
                self.value(node.test)
                self.value(node.msg, SILENT)
            case ast.Global() | ast.Nonlocal():
                self.scope.shared.update(node.names)
            case ast.Import():
                self.scope.names |= {alias.asname or alias.name.partition(".")[0]: MODULE for alias in node.names}
            case ast.ImportFrom():
                known = self.known.values
                self.scope.names |= {alias.asname or alias.name: known.get(alias.name, MODULE) for alias in node.names}
            case _:
                self.parts(node)

    def parts(self, node: ast.AST) -> None:
        """Read what a statement is made of, as in `with`."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child)
            elif isinstance(child, ast.stmt):
                self.statement(child)
            else:
                self.parts(child)

    def block(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def assigned(self, node: ast.stmt, target: ast.expr, value: ast.expr | None) -> Shape:
        """What is assigned; `names = list(set(x))` is left alone if `names.sort()` follows."""
        start = len(self.found)
        result = self.value(value)
        if len(self.found) > start and calls.is_sorted_later(self.source, dotted(target), node):
            del self.found[start:]
            return self.value(value, SILENT)
        return result

    def branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        """Each body from the same start; what follows knows the outcomes of those that do not leave."""
        before, outcomes = self.scope.names, list[dict[str, Shape]]()
        for body in bodies:
            self.scope.names = dict(before)
            self.block(body)
            if not (body and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)):
                outcomes.append(self.scope.names)
        self.scope.names = _merged(outcomes or [before])

    def loop(self, body: Sequence[ast.stmt]) -> None:
        """Read a body twice, so that its top sees what its end assigned; inner loops are so read by the outermost."""
        is_outermost, self.scope.is_looping = not self.scope.is_looping, True
        for _ in range(1 + is_outermost):
            before = dict(self.scope.names)
            self.block(body)
            self.scope.names = _merged([before, self.scope.names])
        self.scope.is_looping = not is_outermost

    def for_loop(self, node: ast.For | ast.AsyncFor) -> None:
        weight, reason = LOOPS, "iterates over a set"
        if all(map(self.is_blind, node.body)):
            weight = SILENT
        elif is_numbering(node.body):
            weight, reason = NUMBERS, "numbers the members of a set"
        value = self.value(node.iter, weight)
        self.report(node, reason, weight, value.order_depends_on)
        self.assign(node.target, value.member)
        self.loop([*node.body, *node.orelse])

    def is_blind(self, node: ast.stmt) -> bool:
        """Whether a statement in a loop does the same in any order: fills sets, counts, checks."""
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
                return all(map(self.is_blind, [*node.body, *node.orelse]))
            case ast.AugAssign(op=ast.BitOr() | ast.BitAnd() | ast.Sub()):
                return self.peek(node.target).kind == "set"
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="append"))):
                return calls.is_sorted_later(self.source, dotted(owner), node)
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name))):
                is_set = name in calls.SET_CHANGES and self.peek(owner).kind == "set"
                return is_set or name in calls.LOGGING | {"pop"}
        return False

    # ---- names

    def lookup(self, name: str) -> Shape | None:
        """What a name stands for, or an attribute of a name as `dotted` writes it."""
        home = self.scope.home(name)
        return home.names[name] if home is not None else None

    def attribute(self, owner: Shape, node: ast.Attribute) -> Shape:
        """An attribute whose owner has been read."""
        return self.lookup(dotted(node)) or self.known.attribute(owner, node.attr)

    def peek(self, node: ast.expr) -> Shape:
        """The same as `value`, without reporting anything."""
        start = len(self.found)
        value = self.value(node)
        del self.found[start:]
        return value

    def assign(self, target: ast.expr, value: Shape) -> None:
        match target:
            case ast.Name(id=name):
                home = (self.scope.home(name) or self.top) if name in self.scope.shared else self.scope
                home.names[name] = value
            case ast.Attribute():
                self.assign_attribute(target, self.value(target.value), value)
            case ast.Subscript():
                self.value(target.slice)
                self.grow(target.value, value)
            case ast.Starred():
                self.assign(target.value, container("list", value))
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                # A set with a single member has no order: `(only,) = found`.
                if len(elements) > 1 or isinstance(elements[0], ast.Starred):
                    self.report(target, "unpacks a set", LOOPS, value.order_depends_on)
                is_paired = value.kind == "tuple" and len(value.of) == len(elements)
                for position, element in enumerate(elements):
                    self.assign(element, value.of[position] if is_paired else value.member)

    def assign_attribute(self, target: ast.Attribute, owner: Shape, value: Shape) -> None:
        """Note what an attribute becomes, for this scope and for everything that has the object."""
        if owner.kind in ("instance", "class"):
            self.learned.learn(f"{owner.name}.{target.attr}", value)
        if name := dotted(target):
            self.scope.names[name] = value

    def grow(self, place: ast.expr, member: Shape) -> None:
        """Note a member that is put into a container."""
        value = self.peek(place)
        if value.kind not in ("set", "list", "dict"):
            return
        members = [value.of[0], member]
        grown = container(value.kind, uniform(members) if value.kind == "dict" else joined(members))
        match place:
            case ast.Name(id=name):
                (self.scope.home(name) or self.scope).names[name] = grown
            case ast.Attribute():
                self.assign_attribute(place, self.peek(place.value), grown)
            case ast.Subscript():
                self.grow(place.value, grown)

    # ---- expressions

    def value(self, node: ast.expr | None, cap: int = NUMBERS) -> Shape:
        """What an expression gives; reports what in it depends on hashes or addresses.

        Args:
            node: the expression.
            cap: how much the order of the result matters to its user.
        """
        match node:
            case None:
                return UNKNOWN
            case ast.Constant(value=constant):
                return PLAIN if isinstance(constant, str | bytes) else INT if isinstance(constant, int) else NUMBER
            case ast.Name():
                return self.name(node)
            case ast.Attribute():
                return self.attribute(self.value(node.value), node)
            case ast.Subscript():
                owner = self.value(node.value)
                self.value(node.slice)
                return entry(owner, node.slice)
            case ast.Call():
                return self.call(node, cap)
            case ast.NamedExpr():
                value = self.value(node.value)
                self.assign(node.target, value)
                return value
            case ast.Lambda():
                saved, unknown = self.scope.names, dict.fromkeys([each.arg for each in parameters(node.args)], UNKNOWN)
                self.scope.names = {**saved, **unknown}
                made = self.value(node.body)
                self.scope.names = saved
                return container("maker", made)
            case ast.Yield():
                self.scope.yielded.append(self.value(node.value))
                return UNKNOWN
            case ast.YieldFrom():
                self.scope.yielded.append(self.iterated(node.value, LOOPS))
                return UNKNOWN
            case ast.Starred():
                return self.iterated(node.value, min(cap, LISTS), "unpacks a set")
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self.comprehension(node, cap)
            case ast.Dict():
                values = [self.value(part) for part in [*node.keys, *node.values]][len(node.keys) :]
                return container("dict", UNKNOWN if None in node.keys else uniform(values))
            case ast.Set() | ast.List() | ast.Tuple():
                return self.display(node, cap)
        return self.operation(node, cap)

    def name(self, node: ast.Name) -> Shape:
        known = self.lookup(node.id)
        if known is None and node.id == "hash" and isinstance(node.ctx, ast.Load):
            self.report(node, "depends on hash()", NUMBERS, UNKNOWN.hash_depends_on)
        made = calls.MADE.get(node.id)
        return known or (Shape("maker", (made,)) if made else UNKNOWN)

    def display(self, node: ast.Set | ast.List | ast.Tuple, cap: int) -> Shape:
        """A container that is written out."""
        cap = SILENT if isinstance(node, ast.Set) else cap
        is_starred = any(isinstance(element, ast.Starred) for element in node.elts)
        values = [self.value(element, cap if isinstance(element, ast.Starred) else NUMBERS) for element in node.elts]
        if isinstance(node, ast.Tuple) and not is_starred:
            return container("tuple", *values)
        return container("set" if isinstance(node, ast.Set) else "list", joined(values))

    def comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, cap: int) -> Shape:
        kind, weight = COMPREHENSIONS[type(node)]
        saved = dict(self.scope.names)
        for generator in node.generators:
            self.assign(generator.target, self.iterated(generator.iter, min(cap, weight)))
            for condition in generator.ifs:
                self.value(condition)
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        values = [self.value(part) for part in parts]
        self.scope.names = saved
        return container(kind, values[-1])

    def operation(self, node: ast.expr, cap: int) -> Shape:
        """What operators give."""
        match node:
            case ast.BinOp():
                left, right = self.value(node.left, cap), self.value(node.right, cap)
                if ADDRESSED in (left, right):
                    self.report(node, "computes with id()", NUMBERS, frozenset({ADDRESS}))
                return operated(node.op, left, right)
            case ast.UnaryOp():
                return self.value(node.operand)
            case ast.BoolOp():
                return joined([self.value(value, cap) for value in node.values])
            case ast.IfExp():
                self.value(node.test)
                return join(self.value(node.body, cap), self.value(node.orelse, cap))
            case ast.Compare():
                self.value(node.left)
                for operator, operand in zip(node.ops, node.comparators, strict=True):
                    self.value(operand, SILENT if isinstance(operator, ast.In | ast.NotIn) else NUMBERS)
                return INT
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.value(child, cap)
        return PLAIN if isinstance(node, ast.JoinedStr) else UNKNOWN

    def iterated(self, node: ast.expr, weight: int, reason: str = "iterates over a set") -> Shape:
        """What a loop over an expression gives."""
        value = self.value(node, weight)
        self.report(node, reason, weight, value.order_depends_on)
        return value.member

    # ---- calls

    def call(self, node: ast.Call, cap: int) -> Shape:
        function, name, owner = node.func, last_name(node.func), UNKNOWN
        if isinstance(function, ast.Attribute):
            owner = self.value(function.value)
            target: Shape | None = self.attribute(owner, function)
        else:
            target = self.lookup(name) if name else self.value(function)
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

    def given(self, name: str, values: Sequence[Shape]) -> Shape:
        """What a function that is known by name gives."""
        return calls.function_result(name, values, self.made_by(values[0]) if values else UNKNOWN)

    def call_own(self, node: ast.Call, target: Shape, owner: Shape) -> Shape:
        is_class = target.kind == "class"
        own = self.known.attribute(target, "__init__").name if is_class else target.name
        # The first one is `self`.
        names = self.known.signatures.get(own, [])[is_class or owner.kind == "instance" :]
        given = [*zip(names, node.args, strict=False), *((keyword.arg, keyword.value) for keyword in node.keywords)]
        for argument in node.args[len(names) :]:
            self.value(argument)
        for name, argument in given:
            self.learned.learn(f"{own}({name})", self.value(argument))
        return Shape("instance", name=target.name) if is_class else self.made_by(target)

    def made_by(self, maker: Shape) -> Shape:
        """What a function gives that is passed along, as `set` is in `defaultdict(set)`."""
        return maker.of[0] if maker.kind == "maker" else self.known.of(f"{maker.name}()")

    def call_method(self, node: ast.Call, function: ast.Attribute, owner: Shape, cap: int) -> Shape:
        name = seen_as = function.attr
        if name == "__hash__":
            return self.hashed(node, [owner])
        if name == "pop":
            self.report(node, "takes a member of a set with pop()", LOOPS, owner.order_depends_on)
        if dotted(function) in calls.BLIND_IN_NUMPY or (name == "update" and owner.kind == "set"):
            seen_as = "set"
        elif hasattr(builtins, name) and name != "map":  # hardly any is like its namesake, but `pool.map` is
            seen_as = ""
        values = self.seen_arguments(node, seen_as, cap)
        position = {"add": 0, "append": 0, "insert": 1, "setdefault": 1}.get(name, len(values))
        if position < len(values):
            self.grow(function.value, values[position])
        elif name in ("update", "extend") and owner.kind in ("set", "list"):
            self.grow(function.value, joined([value.member for value in values]))
        if (name in calls.KEEPING and values) or name in ("defaultdict", "deque"):
            return self.given(name, values)
        return calls.method_result(owner, name, values)

    def arguments(self, node: ast.Call, cap: int = NUMBERS) -> list[Shape]:
        """The positional arguments."""
        values = [self.value(argument, cap) for argument in node.args]
        for keyword in node.keywords:
            self.value(keyword.value)
        return values

    def seen_arguments(self, node: ast.Call, name: str, cap: int) -> list[Shape]:
        """The arguments; reports sets among them if a function of this name sees their order."""
        reason, weight = f"orders a set with {name}()", calls.ORDERING.get(name, SILENT)
        if name in calls.CHOOSING and calls.may_tie(node):
            reason, weight = f"leaves ties to the order of a set: {name}() with a key", WEAK
            cap = min(cap, WEAK) if name == "sorted" else WEAK
        elif name in calls.BLIND:
            cap = SILENT
        elif name not in calls.KEEPING and (not weight or name in calls.RANKING):
            cap = NUMBERS
        values = self.arguments(node, cap)
        self.report(node, reason, min(cap, weight), frozenset().union(*(value.order_depends_on for value in values)))
        if any(keyword.arg == "key" and self.gives_address(keyword.value) for keyword in node.keywords):
            self.report(node, "orders by id()", NUMBERS, frozenset({ADDRESS}))
        if "seed" in name and ADDRESSED in values:
            self.report(node, "seeds with id()", NUMBERS, frozenset({ADDRESS}))
        return values

    def gives_address(self, function: ast.expr) -> bool:
        if isinstance(function, ast.Lambda):
            return isinstance(function.body, ast.Call) and self.gives_address(function.body.func)
        return isinstance(function, ast.Name) and function.id == "id" and self.lookup("id") is None

    def hashed(self, node: ast.Call, values: Sequence[Shape]) -> Shape:
        # A class may well ask for the hash of a string to say what its own is.
        if not self.scope.qualname.endswith("__hash__"):
            depends_on = frozenset[str]().union(*(value.hash_depends_on for value in values))
            self.report(node, "depends on hash()", NUMBERS, depends_on)
        return INT

    def summed(self, node: ast.Call) -> Shape:
        """Floats round in another way in another order, integers add up to the same."""
        start = len(self.found)
        values = self.arguments(node, WEAK)
        if values and values[0].member == INT:
            self.found[start:] = [finding for finding in self.found[start:] if finding.weight > WEAK]
            return INT
        if values:
            self.report(node, "sums over a set", WEAK, values[0].order_depends_on)
        return NUMBER


def is_numbering(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop body deals out numbers: `ids[word] = len(ids)`, or stores under a counter."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    counters = {dotted(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Subscript()], value=ast.Name(id=name)) if name in counters:
                return True
            case (
                ast.Assign(targets=[ast.Subscript()], value=ast.Call(func=ast.Name(id="len")))
                | ast.Call(func=ast.Attribute(attr="setdefault"), args=[_, ast.Call(func=ast.Name(id="len"))])
            ):
                return True
    return False


def _merged(outcomes: Sequence[dict[str, Shape]]) -> dict[str, Shape]:
    merged: dict[str, Shape] = {}
    for names in outcomes:
        for name, value in names.items():
            merged[name] = join(merged.get(name, NEVER), value)
    return merged
