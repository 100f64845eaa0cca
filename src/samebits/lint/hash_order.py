"""Lines that let the hash seed in: the order of a set is used, or `hash()` is called.

Reading a set leaves no trace at run time, so once the hash seed is known to matter, only the source can say where.
The files are read with simple data flow: a name, attribute, argument or return value has a `_Shape`, and a set whose
members may be strings has an order that changes from run to run. What does not care about order (`sorted`, `len`,
another set) is passed by in silence, and so are sets of numbers, whose hashes have no seed.

Several rounds are read: a round knows what the round before learned about functions, classes and other files.
"""

from __future__ import annotations

import ast
import builtins
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import cast

ROUNDS = 5
DEEPEST_SHAPE = 4

# How likely a use is to be the one that matters: the order becomes numbers, a list, steps of a loop, a rounding error.
NUMBERS, LISTS, LOOPS, WEAK, SILENT = 40, 30, 20, 10, 0


@dataclass(frozen=True)
class Finding:
    """A line whose result depends on the hash seed, as far as reading can tell.

    Attributes:
        path: as it was given.
        line: counts from 1.
        function: qualified name; `<module>` at the top level.
        source: the stripped source line.
        reason: what the line does, as a clause that could follow "it".
        weight: larger is likelier.
    """

    path: str
    line: int
    function: str
    source: str
    reason: str
    weight: int


def find_hash_order(paths: Iterable[str | Path]) -> list[Finding]:
    """Lines that depend on the hash seed, the likeliest first, then by path and line; one finding a line.

    Args:
        paths: Python source files; those that cannot be read or parsed are skipped. Files that import each other are
            best given together.
    """
    modules = [module for path in dict.fromkeys(map(str, paths)) if (module := _parsed(path)) is not None]
    known, found = _Facts(), list[Finding]()
    for _ in range(ROUNDS):
        learned, found = _Facts(), []
        for module in modules:
            found += _Reader(module, modules, known, learned).read()
        if learned == known:
            break
        known = learned
    best: dict[tuple[str, int], Finding] = {}
    for finding in sorted(found, key=lambda finding: -finding.weight):
        best.setdefault((finding.path, finding.line), finding)
    return sorted(best.values(), key=lambda finding: (-finding.weight, finding.path, finding.line))


# ---- what a value is


@dataclass(frozen=True)
class _Shape:
    """What is known of a value.

    Attributes:
        kind: set, list (anything with an order of its own), tuple (of known length), dict, view (of a dict), int,
            number, plain (certainly none of these), function, class, instance, module, never (in an empty container),
            unknown.
        of: shapes of the members; for a dict, of its values.
        name: which function, class or module.
    """

    kind: str
    of: tuple[_Shape, ...] = ()
    name: str = ""

    @property
    def depth(self) -> int:
        return 1 + max((shape.depth for shape in self.of), default=0)

    @property
    def member(self) -> _Shape:
        """The shape of what a loop over it gives."""
        if self.kind in ("set", "list", "view"):
            return self.of[0]
        return _joined(self.of) if self.kind == "tuple" else _UNKNOWN

    @property
    def has_seedless_hash(self) -> bool:
        if self.kind in ("tuple", "list", "set"):
            return all(shape.has_seedless_hash for shape in self.of)
        return self.kind in ("int", "number")

    @property
    def is_hash_ordered(self) -> bool:
        return self.kind == "set" and not self.of[0].has_seedless_hash


_UNKNOWN, _NEVER, _PLAIN, _INT, _NUMBER = map(_Shape, ("unknown", "never", "plain", "int", "number"))
_RANKS = {"never": 0, "int": 1, "number": 1, "plain": 2, "unknown": 3, "set": 5}


def _container(kind: str, *of: _Shape) -> _Shape:
    return _Shape(kind, tuple(_UNKNOWN if shape.depth >= DEEPEST_SHAPE else shape for shape in of))


def _join(a: _Shape, b: _Shape) -> _Shape:
    """What a value is that is one or the other; suspicion wins."""
    if a == b:
        return a
    if {a.kind, b.kind} == {"int", "number"}:
        return _NUMBER
    if (a.kind, a.name, len(a.of)) == (b.kind, b.name, len(b.of)):
        return _Shape(a.kind, tuple(map(_join, a.of, b.of)), a.name)
    return max(a, b, key=lambda shape: _RANKS.get(shape.kind, 4))


def _joined(shapes: Iterable[_Shape]) -> _Shape:
    whole = _NEVER
    for shape in shapes:
        whole = _join(whole, shape)
    return whole


def _settled(a: _Shape, b: _Shape) -> _Shape:
    """What an attribute is that two methods assign: a set that is replaced by a list was put in order there."""
    kinds = {a.kind, b.kind}
    return (a if a.kind == "list" else b) if kinds == {"set", "list"} else _join(a, b)


@dataclass
class _Facts:
    """What a round learned; functions and classes go by `path:qualified name`."""

    returns: dict[str, _Shape] = field(default_factory=dict)
    signatures: dict[str, tuple[str, ...]] = field(default_factory=dict)
    arguments: dict[tuple[str, str], _Shape] = field(default_factory=dict)
    attributes: dict[tuple[str, str], _Shape] = field(default_factory=dict)
    bases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    exports: dict[str, dict[str, _Shape]] = field(default_factory=dict)


# ---- what is known by name

_SET_TYPES = {"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet"}
_DICT_TYPES = {"dict", "Dict", "defaultdict", "DefaultDict", "OrderedDict", "Mapping", "MutableMapping"}
_LIST_TYPES = {"list", "List", "Sequence", "MutableSequence", "deque", "Deque"}
_WRAPPING_TYPES = {"Optional", "Final", "ClassVar", "Annotated", "Union"}
_SCALAR_TYPES = {"int": _INT, "bool": _INT, "float": _NUMBER, "complex": _NUMBER, "None": _NUMBER, "str": _PLAIN}

_TO_INT = {"len", "int", "ord", "bool", "id", "hash"}
_TO_NUMBER = {"float", "abs", "round", "sum", "fsum"}
_METHODS_TO_INT = {"count", "index", "find", "randint", "randrange", "numel"}

_SET_METHODS = {"union", "intersection", "difference", "symmetric_difference"}
_SET_UPDATES = {"update", "intersection_update", "difference_update", "symmetric_difference_update"}
_SET_CHANGES = _SET_UPDATES | {"add", "discard", "remove", "clear"}
_GROWING_METHODS = {"add": 0, "append": 0, "appendleft": 0, "insert": 1}  # which argument becomes a member
_LOGGING = {"debug", "info", "warning", "warn", "error", "exception"}

# Whoever asks these does not see the order of what they are given, or shows it to people only.
_BLIND_BUILTINS = {"sorted", "set", "frozenset", "len", "min", "max", "any", "all", "bool", "print"}
_BLIND_FUNCTIONS = _BLIND_BUILTINS | {"nsmallest", "nlargest", "fsum"}
_BLIND_METHODS = _SET_METHODS | _LOGGING | {"issubset", "issuperset", "isdisjoint", "isin", "in1d"}
_BLIND_METHODS |= {"nsmallest", "nlargest", "fsum"}
_BLIND_IN_NUMPY = {"np.unique", "np.sort", "numpy.unique", "numpy.sort"}
_CHOOSING = {"sorted", "min", "max", "nsmallest", "nlargest"}
_TOTAL_KEYS = {"str", "repr", "int", "float", "ord", "fspath"}

# Whoever asks these sees the order. What comes out of the passing ones can still be levelled: `sorted(list(words))`.
_PASSING = {
    **dict.fromkeys(["list", "tuple"], NUMBERS),
    **dict.fromkeys(["deque", "fromiter", "extend"], LISTS),
    **dict.fromkeys(["iter", "map", "filter", "dict", "fromkeys", "join", "writelines", "imap", "starmap"], LOOPS),
    **dict.fromkeys(["chain", "from_iterable", "product"], LOOPS),
    **dict.fromkeys(["str", "repr"], WEAK),
}
_ORDERING = {
    **_PASSING,
    **dict.fromkeys(["enumerate", "zip", "zip_longest"], NUMBERS),
    **dict.fromkeys(["accumulate", "batched", "combinations", "islice", "pairwise", "permutations"], LISTS),
    **dict.fromkeys(["cycle", "reduce"], LOOPS),
}
_ORDERING_METHODS = set(_ORDERING) - {"list", "tuple", "iter", "filter", "dict", "str", "repr", "enumerate", "zip"}
_KEEPING = {"copy", "deepcopy", "tqdm", "track"}
_CONVERTING = {"tensor", "as_tensor", "array", "asarray"}
_MADE_BY = {"set": "set", "frozenset": "set", "list": "list", "tuple": "list", "dict": "dict"}


# ---- one file


@dataclass(frozen=True)
class _Module:
    path: str
    tree: ast.Module
    lines: Sequence[str]
    parents: dict[ast.AST, ast.AST]
    mentions: dict[str, list[ast.expr]]

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """`pkg/data.py` and `pkg/data/__init__.py` are imported as `pkg.data`."""
        parts = PurePath(self.path).with_suffix("").parts
        return parts[:-1] if parts[-1:] == ("__init__",) else parts


def _parsed(path: str) -> _Module | None:
    try:
        with tokenize.open(path) as file:
            text = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    mentions: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and (name := _dotted(node)):
            mentions.setdefault(name, []).append(node)
    return _Module(path, tree, text.split("\n"), parents, mentions)


def _dotted(node: ast.AST) -> str:
    """`a.b.c` for names and attributes of names, else nothing."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@dataclass
class _Scope:
    node: ast.AST
    qualname: str
    parent: _Scope | None = None
    class_key: str = ""
    names: dict[str, _Shape] = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    returned: list[_Shape] = field(default_factory=list)
    yielded: list[_Shape] = field(default_factory=list)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Reader:
    """Reads one file once, statement by statement; functions after the scope they are defined in."""

    def __init__(self, module: _Module, modules: Sequence[_Module], known: _Facts, learned: _Facts) -> None:
        self.module, self.modules, self.known, self.learned = module, modules, known, learned
        self.scope = self.top = _Scope(module.tree, "<module>")
        self.waiting: list[tuple[_Function, _Scope, str]] = []
        self.found: list[Finding] = []
        self.is_looping = False

    def read(self) -> list[Finding]:
        self.read_scope(self.module.tree.body)
        read_ids = set[int]()
        while self.waiting:
            node, scope, class_key = self.waiting.pop(0)
            if id(node) not in read_ids:
                read_ids.add(id(node))
                with suppress(RecursionError):
                    self.read_function(node, scope, class_key)
        self.learned.exports[self.module.path] = {name: s for name, s in self.top.names.items() if "." not in name}
        return self.found

    def read_scope(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            try:
                self.statement(statement)
            except RecursionError:  # nested too deep: the rest can still be read
                self.is_looping = False

    @contextmanager
    def inside(self, scope: _Scope) -> Iterator[None]:
        outer, was_looping = self.scope, self.is_looping
        self.scope, self.is_looping = scope, False
        try:
            yield
        finally:
            self.scope, self.is_looping = outer, was_looping

    def report(self, node: ast.expr | ast.stmt, reason: str, weight: int) -> None:
        if weight > SILENT:
            source = self.module.lines[node.lineno - 1].strip()
            self.found.append(Finding(self.module.path, node.lineno, self.scope.qualname, source, reason, weight))

    # ---- definitions

    def qualname(self, name: str) -> str:
        if self.scope.node is self.module.tree:
            return name
        return f"{self.scope.qualname}.{name}" if self.scope.class_key else f"{self.scope.qualname}.<locals>.{name}"

    def key(self, qualname: str) -> str:
        return f"{self.module.path}:{qualname}"

    def define_function(self, node: _Function) -> None:
        key = self.key(self.qualname(node.name))
        for default in [*node.args.defaults, *node.args.kw_defaults, *node.decorator_list]:
            self.shape(default)
        self.learned.signatures[key] = tuple(arg.arg for arg in _parameters(node.args))
        decorators = {_last_name(decorator) for decorator in node.decorator_list}
        shape = _Shape("function", name=key)
        if decorators & {"property", "cached_property"}:
            shape = self.known.returns.get(key, _UNKNOWN)
        self.assign(ast.Name(node.name, ast.Store()), shape)
        class_key = "" if "staticmethod" in decorators else self.scope.class_key
        self.waiting.append((node, self.scope, class_key))

    def define_class(self, node: ast.ClassDef) -> None:
        qualname = self.qualname(node.name)
        key = self.key(qualname)
        bases = [self.shape(base) for base in node.bases]
        self.learned.bases[key] = tuple(base.name for base in bases if base.kind == "class")
        scope = _Scope(node, qualname, self.scope, class_key=key)
        with self.inside(scope):
            self.read_scope(node.body)
        for name, shape in scope.names.items():
            self.learn_attribute(key, name, shape)
        self.assign(ast.Name(node.name, ast.Store()), _Shape("class", name=key))

    def read_function(self, node: _Function, outer: _Scope, class_key: str) -> None:
        with self.inside(outer):
            qualname = self.qualname(node.name)
            annotated = self.annotation(node.returns)
        parent: _Scope | None = outer
        while parent is not None and parent.class_key:  # methods do not see the names of their class
            parent = parent.parent
        scope, key = _Scope(node, qualname, parent), self.key(qualname)
        with self.inside(scope):
            self.bind_parameters(node, key, class_key)
            self.read_scope(node.body)
        returned = _container("list", _joined(scope.yielded)) if scope.yielded else _joined(scope.returned)
        self.learned.returns[key] = returned if annotated == _UNKNOWN else annotated

    def bind_parameters(self, node: _Function, key: str, class_key: str) -> None:
        defaults = _defaults(node.args)
        for position, parameter in enumerate(_parameters(node.args)):
            shape = self.annotation(parameter.annotation)
            if shape == _UNKNOWN:
                default = self.shape(defaults.get(parameter.arg))
                shape = _join(_join(_UNKNOWN, default), self.known.arguments.get((key, parameter.arg), _NEVER))
            if position == 0 and class_key:
                shape = _Shape("class" if parameter.arg == "cls" else "instance", name=class_key)
            self.scope.names[parameter.arg] = shape
        for rest in filter(None, (node.args.vararg, node.args.kwarg)):
            kind = "list" if rest is node.args.vararg else "dict"
            self.scope.names[rest.arg] = _container(kind, self.annotation(rest.annotation))

    def annotation(self, node: ast.expr | None) -> _Shape:
        """The shape that a type annotation promises."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return _UNKNOWN
        if isinstance(node, ast.Constant):
            return _NUMBER if node.value is None else _UNKNOWN
        if isinstance(node, ast.BinOp):
            return _join(self.annotation(node.left), self.annotation(node.right))
        if isinstance(node, ast.Subscript):
            arguments = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return self.generic(_last_name(node.value), arguments)
        if not isinstance(node, ast.Name | ast.Attribute):
            return _UNKNOWN
        name = _last_name(node)
        if name in _SCALAR_TYPES:
            return _SCALAR_TYPES[name]
        owner = self.lookup(name)
        if owner is not None and owner.kind == "class":
            return _Shape("instance", name=owner.name)
        return self.generic(name, [])

    def generic(self, name: str, arguments: Sequence[ast.expr]) -> _Shape:
        shapes = [self.annotation(argument) for argument in arguments]
        if name in _SET_TYPES:
            return _container("set", *(shapes[:1] or [_UNKNOWN]))
        if name in _DICT_TYPES:
            return _container("dict", *(shapes[1:2] or [_UNKNOWN]))
        if name in _LIST_TYPES:
            return _container("list", *(shapes[:1] or [_UNKNOWN]))
        if name in ("tuple", "Tuple") and shapes:
            is_open = isinstance(arguments[-1], ast.Constant) and arguments[-1].value is ...
            return _container("list", shapes[0]) if is_open else _container("tuple", *shapes)
        if name in _WRAPPING_TYPES and shapes:
            return _joined(shapes) if name == "Union" else shapes[0]
        return _UNKNOWN

    # ---- names and attributes

    def lookup(self, name: str) -> _Shape | None:
        home = self.home(name)
        return home.names[name] if home is not None else None

    def home(self, name: str) -> _Scope | None:
        scope: _Scope | None = self.scope
        while scope is not None and name not in scope.names:
            scope = scope.parent
        return scope

    def assign(self, target: ast.expr, shape: _Shape) -> None:
        if isinstance(target, ast.Name):
            home = (self.home(target.id) or self.top) if target.id in self.scope.shared else self.scope
            home.names[target.id] = shape
        elif isinstance(target, ast.Attribute):
            self.assign_attribute(target, shape)
        elif isinstance(target, ast.Subscript):
            self.shape(target.slice)
            self.grow(target.value, shape)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, _container("list", shape))
        elif isinstance(target, ast.Tuple | ast.List):
            self.unpack(target, shape)

    def assign_attribute(self, target: ast.Attribute, shape: _Shape) -> None:
        owner = self.shape(target.value)
        if owner.kind in ("instance", "class"):
            self.learn_attribute(owner.name, target.attr, shape)
        if name := _dotted(target):
            self.scope.names[name] = shape

    def unpack(self, target: ast.Tuple | ast.List, shape: _Shape) -> None:
        # A set with a single member has no order: `(only,) = found`.
        is_single = len(target.elts) == 1 and not isinstance(target.elts[0], ast.Starred)
        if shape.is_hash_ordered and not is_single:
            self.report(target, "unpacks a set", LOOPS)
        pairs = shape.kind == "tuple" and len(shape.of) == len(target.elts)
        for position, element in enumerate(target.elts):
            self.assign(element, shape.of[position] if pairs else shape.member)

    def learn_attribute(self, class_key: str, name: str, shape: _Shape) -> None:
        place = (class_key, name)
        self.learned.attributes[place] = _settled(self.learned.attributes.get(place, _NEVER), shape)

    def attribute(self, owner: _Shape, name: str) -> _Shape:
        if owner.kind == "module":
            return self.known.exports.get(owner.name, {}).get(name, _UNKNOWN)
        if owner.kind not in ("instance", "class"):
            return _UNKNOWN
        classes, seen = [owner.name], set[str]()
        while classes:
            key = classes.pop(0)
            if (key, name) in self.known.attributes:
                return self.known.attributes[key, name]
            if key not in seen:
                seen.add(key)
                classes.extend(self.known.bases.get(key, ()))
        return _UNKNOWN

    def grow(self, place: ast.expr, member: _Shape) -> None:
        """Note a member that is put into a container."""
        if isinstance(place, ast.Subscript):
            inner = self.peek(place)
            if inner.kind in ("set", "list", "dict"):
                self.grow(place.value, _container(inner.kind, _join(inner.of[0], member)))
            return
        shape, name = self.peek(place), _dotted(place)
        if shape.kind not in ("set", "list", "dict") or not name:
            return
        grown = _container(shape.kind, _join(shape.of[0], member))
        (self.home(name) or self.scope).names[name] = grown
        if isinstance(place, ast.Attribute):
            owner = self.peek(place.value)
            if owner.kind in ("instance", "class"):
                self.learn_attribute(owner.name, place.attr, grown)

    def peek(self, node: ast.expr) -> _Shape:
        """The shape of a name, an attribute or an entry, without reporting anything."""
        if isinstance(node, ast.Subscript):
            return _entry(self.peek(node.value), node.slice)
        known = self.lookup(_dotted(node)) if _dotted(node) else None
        if known is None and isinstance(node, ast.Attribute):
            return self.attribute(self.peek(node.value), node.attr)
        return known or _UNKNOWN

    # ---- statements

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.define_function(node)
            case ast.ClassDef():
                self.define_class(node)
            case ast.Assign():
                shape = self.assigned(node, node.targets, node.value)
                for target in node.targets:
                    self.assign(target, shape)
            case ast.AnnAssign():
                shape = self.assigned(node, [node.target], node.value)
                annotated = self.annotation(node.annotation)
                if node.value is not None or annotated != _UNKNOWN:
                    self.assign(node.target, shape if annotated == _UNKNOWN else annotated)
            case ast.AugAssign():
                self.augment(node)
            case ast.For() | ast.AsyncFor():
                self.for_loop(node)
            case ast.While():
                self.shape(node.test)
                self.loop(node.body, node.orelse)
            case ast.If():
                self.branches(self.alternatives(node))
            case ast.Try():
                self.attempt(node)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.shape(item.context_expr)
                    if item.optional_vars is not None:
                        self.assign(item.optional_vars, _UNKNOWN)
                self.block(node.body)
            case ast.Match():
                self.shape(node.subject)
                for case in node.cases:
                    self.shape(case.guard)
                self.branches([*(case.body for case in node.cases), []])
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
            case _ if hasattr(node, "handlers"):  # `except*`, unknown to Python 3.10
                self.attempt(cast(ast.Try, node))
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.shape(child)

    def block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def alternatives(self, node: ast.If) -> list[list[ast.stmt]]:
        """The bodies of a chain of `if` and `elif`, which the parser nests one in the other."""
        bodies = list[list[ast.stmt]]()
        rest: list[ast.stmt] = [node]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            self.shape(rest[0].test)
            bodies.append(rest[0].body)
            rest = rest[0].orelse
        return [*bodies, rest]

    def branches(self, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        """Each body from the same start; what follows knows the outcomes of those that do not leave."""
        before, outcomes = dict(self.scope.names), list[dict[str, _Shape]]()
        for body in bodies:
            self.scope.names = dict(before)
            self.block(body)
            if not (body and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)):
                outcomes.append(self.scope.names)
        self.scope.names = _merged(outcomes or [before])

    def attempt(self, node: ast.Try) -> None:
        before = dict(self.scope.names)
        self.block(node.body)
        self.scope.names = _merged([before, self.scope.names]) if node.handlers else self.scope.names
        self.branches([node.orelse, *(handler.body for handler in node.handlers)])
        self.block(node.finalbody)

    def loop(self, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        # Twice, so that the top of the body sees what its end assigned; inner loops are read twice by the outermost.
        outermost, self.is_looping = not self.is_looping, True
        for _ in range(1 + outermost):
            before = dict(self.scope.names)
            self.block(body)
            self.scope.names = _merged([before, self.scope.names])
        self.is_looping = not outermost
        self.block(orelse)

    def for_loop(self, node: ast.For | ast.AsyncFor) -> None:
        weight, reason = LOOPS, "iterates over a set"
        if self.is_blind_body(node.body):
            weight = SILENT
        elif _is_numbering(node.body):
            weight, reason = NUMBERS, "numbers the members of a set"
        shape = self.shape(node.iter, weight)
        if shape.is_hash_ordered:
            self.report(node, reason, weight)
        self.assign(node.target, shape.member)
        self.loop(node.body, node.orelse)

    def is_blind_body(self, body: Sequence[ast.stmt]) -> bool:
        """Whether a loop body does the same in any order: fills sets, counts, checks."""
        return all(self.is_blind_statement(statement) for statement in body)

    def is_blind_statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Pass() | ast.Continue() | ast.Assert() | ast.Raise() | ast.Delete():
                return True
            case ast.Return(value=value):
                return value is None or isinstance(value, ast.Constant)
            case ast.If() | ast.For():
                return self.is_blind_body([*node.body, *node.orelse])
            case ast.AugAssign(op=ast.Add() | ast.Sub(), target=ast.Name(), value=ast.Constant()):
                return True
            case ast.AugAssign(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
                return self.peek(node.target).kind == "set"
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name))) if name in _SET_CHANGES:
                return self.peek(owner).kind == "set"
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="append"))):
                return self.is_sorted_later(_dotted(owner), node)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name), args=[_, *_])) if name in _LOGGING | {"pop"}:
                return True
            case ast.Expr(value=ast.Call(func=ast.Name(id="print"))) | ast.Expr(value=ast.Constant()):
                return True
        return False

    def assigned(self, node: ast.stmt, targets: Sequence[ast.expr], value: ast.expr | None) -> _Shape:
        """The shape of an assigned value; `names = list(set(x))` is left alone if `names.sort()` follows."""
        start = len(self.found)
        shape = self.shape(value)
        if len(self.found) > start and len(targets) == 1 and self.is_sorted_later(_dotted(targets[0]), node):
            del self.found[start:]
            return self.shape(value, SILENT)
        return shape

    def is_sorted_later(self, name: str, after: ast.stmt) -> bool:
        """Whether, after a statement, nothing looks at the order of a list before it is sorted, if ever."""
        end = (after.end_lineno or 0, after.end_col_offset or 0)
        here = _function_of(after, self.module.parents)
        was_asked = False
        for mention in sorted(self.module.mentions.get(name, ()), key=lambda node: (node.lineno, node.col_offset)):
            if _function_of(mention, self.module.parents) is not here:
                continue
            if (mention.lineno, mention.col_offset) < end:
                continue
            use = self.use_of(mention)
            if use != "blind":
                return use == "sorts" or (use == "replaces" and was_asked)
            was_asked = True
        return was_asked and not self.is_used_elsewhere(name, here)

    def is_used_elsewhere(self, name: str, here: ast.AST) -> bool:
        mentions = self.module.mentions.get(name, ())
        elsewhere = [node for node in mentions if _function_of(node, self.module.parents) is not here]
        return any(self.use_of(mention) != "blind" for mention in elsewhere)

    def use_of(self, mention: ast.expr) -> str:
        parent = self.module.parents[mention]
        above = self.module.parents.get(parent)
        match parent:
            case ast.Attribute(attr="sort") if isinstance(above, ast.Call):
                return "other" if _may_tie(above) else "sorts"
            case ast.Attribute(attr="append" | "extend") if isinstance(above, ast.Call):
                return "blind"
            case ast.Assign(value=ast.Call(func=ast.Name(id="sorted"), args=[first]) as call):
                return "sorts" if _dotted(first) == _dotted(mention) and not _may_tie(call) else "replaces"
            case ast.Assign():
                return "replaces" if mention in parent.targets else "other"
            case ast.Call(func=ast.Name(id=name)) if name in _BLIND_BUILTINS and mention in parent.args:
                return "other" if _may_tie(parent) else "blind"
            case ast.Compare(ops=[ast.In() | ast.NotIn()]) if mention in parent.comparators:
                return "blind"
        return "other"

    def augment(self, node: ast.AugAssign) -> None:
        load = self.peek(node.target)
        added = self.shape(node.value)
        if isinstance(node.op, ast.Add) and added.is_hash_ordered:
            self.report(node, "extends a list by a set", LISTS)
        self.assign(node.target, _operated(node.op, load, added))

    def imports(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            if alias.name == "*" and isinstance(node, ast.ImportFrom):
                self.scope.names.update(self.known.exports.get(self.module_path(node.module or ""), {}))
                continue
            if isinstance(node, ast.Import):
                path = self.module_path(alias.name) if alias.asname or "." not in alias.name else ""
                shape = _Shape("module", name=path) if path else _UNKNOWN
            else:
                home = self.module_path(node.module) if node.module else ""
                shape = self.known.exports.get(home, {}).get(alias.name, _UNKNOWN)
                inner = self.module_path(f"{node.module}.{alias.name}" if node.module else alias.name)
                shape = _Shape("module", name=inner) if shape == _UNKNOWN and inner else shape
            self.scope.names[alias.asname or alias.name.partition(".")[0]] = shape

    def module_path(self, name: str) -> str:
        """The given file that an import means; nothing when none or several could be meant."""
        parts = tuple(name.split("."))
        fitting = [module for module in self.modules if module.parts[-len(parts) :] == parts]
        beside = [module for module in fitting if module.parts[: -len(parts)] == self.module.parts[:-1]]
        chosen = beside if len(fitting) > 1 else fitting
        return chosen[0].path if len(chosen) == 1 else ""

    # ---- expressions

    def shape(self, node: ast.expr | None, cap: int = NUMBERS) -> _Shape:
        """The shape of an expression; reports what in it depends on the hash seed.

        Args:
            node: the expression.
            cap: how much the order of the result matters to whoever uses it.
        """
        match node:
            case None:
                return _UNKNOWN
            case ast.Constant(value=value):
                return _PLAIN if isinstance(value, str | bytes) else _INT if isinstance(value, int) else _NUMBER
            case ast.Name():
                return self.name(node)
            case ast.Attribute():
                owner = self.shape(node.value)
                known = self.lookup(_dotted(node)) if _dotted(node) else None
                return known or self.attribute(owner, node.attr)
            case ast.Subscript():
                owner = self.shape(node.value)
                self.shape(node.slice)
                return _entry(owner, node.slice)
            case ast.Call():
                return self.call(node, cap)
            case ast.Set():
                return _container("set", self.members(node.elts, SILENT))
            case ast.List():
                return _container("list", self.members(node.elts, cap))
            case ast.Tuple():
                return self.tuple_display(node, cap)
            case ast.Dict():
                return self.dict_display(node)
            case ast.SetComp():
                return _container("set", self.comprehension(node.generators, [node.elt], SILENT))
            case ast.ListComp():
                return _container("list", self.comprehension(node.generators, [node.elt], min(cap, LISTS)))
            case ast.GeneratorExp():
                return _container("list", self.comprehension(node.generators, [node.elt], min(cap, LOOPS)))
            case ast.DictComp():
                return _container("dict", self.comprehension(node.generators, [node.key, node.value], min(cap, LOOPS)))
            case ast.BinOp():
                passed = cap if isinstance(node.op, ast.Add | ast.Mod) else NUMBERS
                return _operated(node.op, self.shape(node.left, passed), self.shape(node.right, passed))
            case ast.UnaryOp():
                shape = self.shape(node.operand)
                return _INT if isinstance(node.op, ast.Not) else shape
            case ast.BoolOp():
                return _joined([self.shape(value, cap) for value in node.values])
            case ast.IfExp():
                self.shape(node.test)
                return _join(self.shape(node.body, cap), self.shape(node.orelse, cap))
            case ast.Compare():
                return self.comparison(node)
            case ast.NamedExpr():
                shape = self.shape(node.value)
                self.assign(node.target, shape)
                return shape
            case ast.Lambda():
                return self.function_of_lambda(node)
            case ast.Yield():
                self.scope.yielded.append(self.shape(node.value))
                return _UNKNOWN
            case ast.YieldFrom():
                shape = self.shape(node.value)
                if shape.is_hash_ordered:
                    self.report(node, "iterates over a set", LOOPS)
                self.scope.yielded.append(shape.member)
                return _UNKNOWN
            case ast.Await():
                return self.shape(node.value, cap)
            case ast.JoinedStr():
                for part in node.values:
                    self.shape(part, cap)
                return _PLAIN
            case ast.FormattedValue():
                return self.shape(node.value, cap)
            case ast.Starred():
                return self.starred(node, cap)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.shape(child)
        return _UNKNOWN

    def name(self, node: ast.Name) -> _Shape:
        known = self.lookup(node.id)
        if known is None and node.id == "hash" and isinstance(node.ctx, ast.Load):
            self.report(node, "depends on hash()", NUMBERS)
        return known or _UNKNOWN

    def function_of_lambda(self, node: ast.Lambda) -> _Shape:
        saved = dict(self.scope.names)
        self.scope.names.update((argument.arg, _UNKNOWN) for argument in _parameters(node.args))
        key = self.key(f"<lambda>:{node.lineno}:{node.col_offset}")
        self.learned.returns[key] = self.shape(node.body)
        self.learned.signatures[key] = ()
        self.scope.names = saved
        return _Shape("function", name=key)

    def members(self, elements: Sequence[ast.expr], cap: int) -> _Shape:
        return _joined([self.shape(node, cap if isinstance(node, ast.Starred) else NUMBERS) for node in elements])

    def tuple_display(self, node: ast.Tuple, cap: int) -> _Shape:
        if any(isinstance(element, ast.Starred) for element in node.elts):
            return _container("list", self.members(node.elts, cap))
        return _container("tuple", *[self.shape(element) for element in node.elts])

    def dict_display(self, node: ast.Dict) -> _Shape:
        shapes = []
        for key, value in zip(node.keys, node.values, strict=True):
            self.shape(key)
            shape = self.shape(value)
            shapes.append(shape if key is not None else shape.of[0] if shape.kind == "dict" else _UNKNOWN)
        # A record of mixed values says nothing about any one of them.
        return _container("dict", _joined(shapes) if len({shape.kind for shape in shapes}) <= 1 else _UNKNOWN)

    def starred(self, node: ast.Starred, cap: int) -> _Shape:
        shape = self.shape(node.value, cap)
        if shape.is_hash_ordered:
            self.report(node, "unpacks a set", min(cap, LISTS))
        return shape.member

    def comparison(self, node: ast.Compare) -> _Shape:
        self.shape(node.left)
        for operator, operand in zip(node.ops, node.comparators, strict=True):
            self.shape(operand, SILENT if isinstance(operator, ast.In | ast.NotIn) else NUMBERS)
        return _INT

    def comprehension(
        self, generators: Sequence[ast.comprehension], elements: Sequence[ast.expr], weight: int
    ) -> _Shape:
        """The shape of the last element; `weight` is that of iterating over a set in it."""
        saved = dict(self.scope.names)
        for generator in generators:
            shape = self.shape(generator.iter, weight)
            if shape.is_hash_ordered:
                self.report(generator.iter, "iterates over a set", weight)
            self.assign(generator.target, shape.member)
            for condition in generator.ifs:
                self.shape(condition)
        shapes = [self.shape(element) for element in elements]
        self.scope.names = saved
        return shapes[-1]

    # ---- calls

    def call(self, node: ast.Call, cap: int) -> _Shape:
        name = _last_name(node.func)
        if isinstance(node.func, ast.Attribute):
            owner = self.shape(node.func.value)
            known = self.lookup(_dotted(node.func)) if _dotted(node.func) else None
            target = known or self.attribute(owner, name)
        else:
            owner = _UNKNOWN
            target = (self.lookup(name) if name else self.shape(node.func)) or _UNKNOWN
        if target.kind in ("function", "class"):
            return self.call_own(node, target, owner)
        if isinstance(node.func, ast.Attribute):
            return self.call_method(node, node.func, owner, cap)
        return self.call_function(node, name, cap)

    def call_own(self, node: ast.Call, target: _Shape, owner: _Shape) -> _Shape:
        """A call of a function or class of the files at hand: note what it is given."""
        key = target.name
        if target.kind == "class":
            key = self.attribute(target, "__init__").name or key
        names = self.known.signatures.get(key, ())
        if target.kind == "class" or owner.kind == "instance":
            names = names[1:]
        shapes = [self.shape(argument) for argument in node.args]
        for name, argument, shape in zip(names, node.args, shapes, strict=False):
            if isinstance(argument, ast.Starred):
                break
            self.learn_argument(key, name, shape)
        for keyword in node.keywords:
            self.learn_argument(key, keyword.arg or "", self.shape(keyword.value))
        if target.kind == "class":
            return _Shape("instance", name=target.name)
        return self.known.returns.get(target.name, _UNKNOWN)

    def learn_argument(self, key: str, name: str, shape: _Shape) -> None:
        self.learned.arguments[key, name] = _join(self.learned.arguments.get((key, name), _NEVER), shape)

    def arguments(self, node: ast.Call, cap: int = NUMBERS) -> list[_Shape]:
        shapes = [self.shape(argument, cap) for argument in node.args]
        for keyword in node.keywords:
            self.shape(keyword.value)
        return shapes

    def call_function(self, node: ast.Call, name: str, cap: int) -> _Shape:
        if hasattr(builtins, name) and self.lookup(name) is not None:  # some other `map`
            self.arguments(node)
            return _UNKNOWN
        if name == "hash":
            return self.hashed(node, self.arguments(node))
        if name == "sum":
            return self.summed(node)
        if name in _KEEPING or name in _CONVERTING:
            return self.passed_on(node, name, cap)
        if name in _BLIND_FUNCTIONS:
            shapes = self.blind_arguments(node, name, cap)
        elif name in _ORDERING:
            shapes = self.ordering_arguments(node, name, cap)
        else:
            shapes = self.arguments(node)
        return self.result(node, name, shapes)

    def passed_on(self, node: ast.Call, name: str, cap: int) -> _Shape:
        shapes = self.arguments(node, cap)
        return shapes[0] if shapes and name in _KEEPING else _UNKNOWN

    def hashed(self, node: ast.Call, shapes: Sequence[_Shape]) -> _Shape:
        is_own_hash = getattr(self.scope.node, "name", "") == "__hash__"
        if not is_own_hash and not all(shape.has_seedless_hash for shape in shapes):
            self.report(node, "depends on hash()", NUMBERS)
        return _INT

    def summed(self, node: ast.Call) -> _Shape:
        start = len(self.found)
        shapes = self.arguments(node, WEAK)
        if shapes and shapes[0].is_hash_ordered:
            self.report(node, "sums over a set", WEAK)
        if shapes and shapes[0].member == _INT:  # integers add up to the same in any order
            self.found[start:] = [finding for finding in self.found[start:] if finding.weight > WEAK]
            return _INT
        return _NUMBER

    def blind_arguments(self, node: ast.Call, name: str, cap: int) -> list[_Shape]:
        weight = SILENT
        if name in _CHOOSING and _may_tie(node):
            weight = min(cap, WEAK) if name == "sorted" else WEAK
        shapes = self.arguments(node, weight)
        if any(shape.is_hash_ordered for shape in shapes):
            self.report(node, f"leaves ties to the order of a set: {name}() with a key", weight)
        return shapes

    def ordering_arguments(self, node: ast.Call, name: str, cap: int) -> list[_Shape]:
        passed = cap if name in _PASSING else NUMBERS
        shapes = self.arguments(node, passed)
        if any(shape.is_hash_ordered for shape in shapes):
            self.report(node, f"orders a set with {name}()", min(passed, _ORDERING[name]))
        return shapes

    def result(self, node: ast.Call, name: str, shapes: Sequence[_Shape]) -> _Shape:
        first = shapes[0] if shapes else _UNKNOWN
        if name in ("set", "frozenset"):
            return _container("set", first.member if shapes else _NEVER)
        if name in ("list", "tuple", "sorted", "reversed", "iter", "deque"):
            return _container("list", first.member if shapes else _NEVER)
        if name == "range":
            return _container("list", _INT)
        if name == "enumerate":
            return _container("list", _container("tuple", _INT, first.member))
        if name == "zip":
            return _container("list", _container("tuple", *[shape.member for shape in shapes]))
        if name == "filter" and len(shapes) == 2:
            return _container("list", shapes[1].member)
        if name == "map" and node.args:
            return _container("list", self.made_by(node.args[0], first))
        if name in ("next", "min", "max"):
            return first.member if len(shapes) == 1 else _UNKNOWN
        if name == "dict":
            return _container("dict", first.of[0] if first.kind == "dict" else _UNKNOWN if shapes else _NEVER)
        if name == "defaultdict":
            return _container("dict", self.made_by(node.args[0], first) if node.args else _UNKNOWN)
        if name == "field":
            factories = [keyword.value for keyword in node.keywords if keyword.arg == "default_factory"]
            return self.made_by(factories[0], _UNKNOWN) if factories else _UNKNOWN
        return _INT if name in _TO_INT else _NUMBER if name in _TO_NUMBER else _UNKNOWN

    def made_by(self, maker: ast.expr, shape: _Shape) -> _Shape:
        """What a function gives that is passed along, as `set` is in `defaultdict(set)`."""
        if shape.kind == "function":
            return self.learned.returns.get(shape.name) or self.known.returns.get(shape.name, _UNKNOWN)
        name = _last_name(maker)
        if name in _MADE_BY:
            return _container(_MADE_BY[name], _NEVER)
        return _INT if name in _TO_INT else _NUMBER if name in _TO_NUMBER else _UNKNOWN

    def call_method(self, node: ast.Call, function: ast.Attribute, owner: _Shape, cap: int) -> _Shape:
        name = function.attr
        if name == "__hash__":
            return self.hashed(node, [owner])
        if (name in _KEEPING and node.args) or name in _CONVERTING:
            return self.passed_on(node, name, cap)
        if name == "pop" and owner.is_hash_ordered:
            self.report(node, "takes a member of a set with pop()", LOOPS)
        is_update = name in _SET_UPDATES and owner.kind == "set"
        if name in _BLIND_METHODS or is_update or _dotted(function) in _BLIND_IN_NUMPY:
            shapes = self.blind_arguments(node, name, cap)
        elif name in _ORDERING_METHODS:
            shapes = self.ordering_arguments(node, name, cap)
        else:
            shapes = self.arguments(node)
        self.change(function, owner, shapes)
        if _last_name(function.value) in ("set", "frozenset") and name in _SET_METHODS:
            return _container("set", _UNKNOWN)
        if name in ("defaultdict", "deque", "field"):
            return self.result(node, name, shapes)
        return _method_result(owner, name, shapes)

    def change(self, function: ast.Attribute, owner: _Shape, shapes: Sequence[_Shape]) -> None:
        name = function.attr
        position = _GROWING_METHODS.get(name, len(shapes))
        if position < len(shapes):
            self.grow(function.value, shapes[position])
        elif name in ("update", "extend", "symmetric_difference_update") and owner.kind in ("set", "list"):
            self.grow(function.value, _joined([shape.member for shape in shapes]))
        elif name == "setdefault" and len(shapes) == 2:
            self.grow(function.value, shapes[1])


# ---- small questions about syntax and shapes


def _parameters(arguments: ast.arguments) -> list[ast.arg]:
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def _defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    positional = [*arguments.posonlyargs, *arguments.args]
    last = positional[len(positional) - len(arguments.defaults) :]
    defaults = {parameter.arg: default for parameter, default in zip(last, arguments.defaults, strict=True)}
    for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            defaults[parameter.arg] = default
    return defaults


def _function_of(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    while node in parents:
        node = parents[node]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            break
    return node


def _merged(outcomes: Sequence[dict[str, _Shape]]) -> dict[str, _Shape]:
    merged: dict[str, _Shape] = {}
    for names in outcomes:
        for name, shape in names.items():
            merged[name] = _join(merged.get(name, _NEVER), shape)
    return merged


def _entry(owner: _Shape, index: ast.expr) -> _Shape:
    if isinstance(index, ast.Slice):
        return _container("list", owner.member) if owner.kind in ("list", "tuple") else _UNKNOWN
    if owner.kind == "tuple" and isinstance(index, ast.Constant) and isinstance(index.value, int):
        return owner.of[index.value] if -len(owner.of) <= index.value < len(owner.of) else _UNKNOWN
    return owner.of[0] if owner.kind == "dict" else owner.member


def _operated(operator: ast.operator, left: _Shape, right: _Shape) -> _Shape:
    kinds = {left.kind, right.kind}
    if isinstance(operator, ast.BitOr | ast.BitAnd | ast.BitXor | ast.Sub) and kinds & {"set", "view"}:
        if isinstance(operator, ast.Sub) or (isinstance(operator, ast.BitAnd) and left.member.has_seedless_hash):
            return _container("set", left.member)
        return _container("set", _join(left.member, right.member))
    if kinds <= {"int", "number"}:
        return _NUMBER if "number" in kinds or isinstance(operator, ast.Div | ast.Pow) else _INT
    if isinstance(operator, ast.Add) and "list" in kinds:
        return _container("list", _join(left.member, right.member))
    return _join(left, right) if left.kind == right.kind == "dict" else _UNKNOWN


def _method_result(owner: _Shape, name: str, shapes: Sequence[_Shape]) -> _Shape:
    if owner.kind == "set" and name in _SET_METHODS:
        is_wider = name in ("union", "symmetric_difference")
        return _container("set", _joined([owner.member, *(shape.member for shape in shapes if is_wider)]))
    if name in ("keys", "items", "values") and not shapes:
        value = owner.of[0] if owner.kind == "dict" else _UNKNOWN
        if name == "items":
            return _container("view", _container("tuple", _UNKNOWN, value))
        return _container("list", value) if name == "values" else _container("view", _UNKNOWN)
    if name in ("get", "setdefault", "pop"):
        value = owner.of[0] if owner.kind == "dict" else _NEVER if len(shapes) == 2 else owner.member
        return _joined([value, *shapes[1:2]])
    if name == "copy":
        return owner
    return _INT if name in _METHODS_TO_INT else _UNKNOWN


def _may_tie(node: ast.Call) -> bool:
    """Whether a call sorts by a key that two members of a set may share."""
    for keyword in node.keywords:
        if keyword.arg != "key":
            continue
        key = keyword.value
        if isinstance(key, ast.Lambda):
            names = {argument.arg for argument in key.args.args}
            parts = key.body.elts if isinstance(key.body, ast.Tuple) else [key.body]
            return not any(isinstance(part, ast.Name) and part.id in names for part in parts)
        return _last_name(key) not in _TOTAL_KEYS and not (isinstance(key, ast.Constant) and key.value is None)
    return False


def _is_numbering(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop body deals out numbers: `ids[word] = len(ids)`, or stores under a counter."""
    nodes = [node for statement in body for node in ast.walk(statement)]
    counters = {_dotted(node.target) for node in nodes if isinstance(node, ast.AugAssign)}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Subscript()], value=ast.Call(func=ast.Name(id="len"))):
                return True
            case ast.Assign(targets=[ast.Subscript()], value=ast.Name(id=name)) if name in counters:
                return True
            case ast.Call(func=ast.Attribute(attr="setdefault"), args=[_, ast.Call(func=ast.Name(id="len"))]):
                return True
    return False
