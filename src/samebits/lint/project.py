"""Files read together, and what rules ask of all of them: what a script imports, seeds and draws."""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import Any, Concatenate, ParamSpec, TypeVar

from samebits.lint.flow import Flow
from samebits.lint.libraries import ALL, DRAWS, GENERATOR_KEYWORDS, SEEDS, SPLITS, is_seed_helper
from samebits.lint.source import Function, Index, Source, called, dotted, is_none, last_name, owner_of, parameters, walk

P = ParamSpec("P")
T = TypeVar("T")
# What loaders and samplers are called from which a model is evaluated.
EVALUATION = re.compile(
    r"(?:.*_)?(val|valid|validation|test|eval|dev)_?(loader|dl|dataloader|iter|sampler)?", re.IGNORECASE
)
_DATASETS = ("Dataset", "DataPipe", "ImageFolder", "DatasetFolder")


def remembered(ask: Callable[Concatenate[Project, P], T]) -> Callable[Concatenate[Project, P], T]:
    """A question to a project whose answers are kept, each for its arguments."""

    def answer(project: Project, /, *given: P.args, **named: P.kwargs) -> T:
        known, key = project.known[ask], (*given, *named.items())
        if key not in known:
            known[key] = ask(project, *given, **named)
        found: T = known[key]
        return found

    return answer


class Project:
    """The sources of some paths, with the facts that take more than one line to see."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        self.known: dict[object, dict[Any, Any]] = defaultdict(dict)

    # ---- files

    @cached_property
    def _by_stem(self) -> dict[str, list[Source]]:
        return Index(("".join(source.module[-1:]), source) for source in self.sources)

    @remembered
    def imports_of(self, source: Source) -> frozenset[Source]:
        """The files among these that a file imports: of several with a fitting name, the nearest."""
        wanted = {alias.name for node in source.every(ast.Import) for alias in node.names}
        for node in source.every(ast.ImportFrom):
            wanted |= {f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names}
            wanted.add(node.module or "")
        found: set[Source] = set()
        for name in wanted - {""}:
            parts = tuple(name.split("."))
            fitting = [one for one in self._by_stem[parts[-1]] if one is not source and one.is_meant(parts)]
            if fitting:
                found.add(max(fitting, key=lambda one: _shared(one.module, source.module)))
        return frozenset(found)

    @remembered
    def closure(self, source: Source) -> frozenset[Source]:
        """A file and all that it imports, directly or not."""
        found, waiting = {source}, [source]
        while waiting:
            new = self.imports_of(waiting.pop()) - found
            found |= new
            waiting += new
        return frozenset(found)

    @cached_property
    def entries(self) -> list[Source]:
        """The files that are run: those that say so, notebooks, and those that train at their top level."""
        return [source for source in self.sources if _is_entry(source)]

    @remembered
    def entries_of(self, source: Source) -> list[Source]:
        """The scripts that a file is part of."""
        return [entry for entry in self.entries if source in self.closure(entry)]

    @remembered
    def together(self, source: Source) -> frozenset[Source]:
        """A file with every script that it is part of, and all of theirs."""
        return self.closure(source).union(*map(self.closure, self.entries_of(source)))

    def is_mentioned(self, sources: Iterable[Source], *words: str) -> bool:
        """Whether any of some words is a name, or an attribute, in some files."""
        return any(word in source.words for source in sources for word in words)

    def loaders(self, source: Source) -> list[tuple[Source, ast.Call]]:
        """Where a loader is made, in the scripts that a file is part of."""
        return [(one, call) for one in self.together(source) for call in one.methods["DataLoader"]]

    def has_workers(self, source: Source) -> bool:
        """Whether any of those may have workers."""
        given = [argument(call, "num_workers", 5) for _, call in self.loaders(source)]
        return any(one is not None and getattr(one, "value", 1) != 0 for one in given)

    # ---- functions and classes

    @cached_property
    def functions(self) -> Mapping[str, list[tuple[Source, Function]]]:
        """All functions by their names."""
        kinds = ast.FunctionDef, ast.AsyncFunctionDef
        return Index((node.name, (source, node)) for source in self.sources for node in source.every(*kinds))

    def function(self, source: Source, name: str) -> tuple[Source, Function] | None:
        """The function of that name which a file means: its own, else one that it imports."""
        found = self.functions[name]
        near = [one for one in found if one[0] is source] or [one for one in found if one[0] in self.closure(source)]
        return near[0] if near else None

    @cached_property
    def classes(self) -> Mapping[str, list[tuple[Source, ast.ClassDef]]]:
        """All classes by their names."""
        return Index((node.name, (source, node)) for source in self.sources for node in source.every(ast.ClassDef))

    def is_kind(self, node: ast.ClassDef, *endings: str) -> bool:
        """Whether a class, or one that it is made from, has a name that ends so."""
        seen, waiting = set[str](), [node]
        while waiting:
            for base in map(last_name, waiting.pop().bases):
                if base.endswith(endings):
                    return True
                if base not in seen:
                    seen.add(base)
                    waiting += [one for _, one in self.classes[base]]
        return False

    def is_dataset(self, node: ast.ClassDef) -> bool:
        """Whether a DataLoader may be given it: it says so, or has a length and items."""
        methods = {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
        return {"__getitem__", "__len__"} <= methods or self.is_kind(node, *_DATASETS)

    @remembered
    def models_in(self, source: Source) -> list[ast.Call]:
        """Where a file makes modules of these files, as `Net()` or `Net.from_name()`: their layers are drawn."""
        found: list[Any] = []
        for name in source.words & self.classes.keys():
            own = [node for home, node in self.classes[name] if home in self.closure(source)]
            for node in source.named[name] if any(self.is_kind(one, "Module") for one in own) else ():
                parent = source.parents[node]
                maker = parent if isinstance(parent, ast.Attribute) and parent.attr.startswith("from_") else node
                if source.is_called(maker):
                    found.append(source.parents[maker])
        return sorted(found, key=lambda call: (call.lineno, call.col_offset))

    # ---- seeds and draws

    @remembered
    def seeds(self, entry: Source) -> frozenset[str]:
        """Which generators a script seeds: `torch`, `numpy`, `random`; `*` where a helper elsewhere may seed any."""
        closure = self.closure(entry)
        found = {
            library
            for source in closure
            for library, holder in self._seeding(source)
            if holder == TOP or (holder == MAIN and source is entry) or any(holder in one.words for one in closure)
        }
        beside = [one for one in closure if os.path.dirname(one.path) == os.path.dirname(entry.path)]
        return frozenset(found | {ALL} if any(map(self._imports_unseen, {entry, *beside})) else found)

    @remembered
    def _seeding(self, source: Source) -> frozenset[tuple[str, str]]:
        """Which libraries a file seeds, each with the function of it that does."""
        found = {(library, holder_of(source, call)) for library, call in seeds_in(source)}
        for name, calls in source.calls.items():
            if is_seed_helper(name) and not self._is_here(source, last_name(calls[0].func)):
                found |= {(ALL, holder_of(source, call)) for call in calls}
        return frozenset(found)

    def _is_here(self, source: Source, name: str) -> bool:
        """Whether a function or class stands in a file or in what it imports."""
        defined = (*self.functions[name], *self.classes[name])
        return any(one in self.closure(source) for one, _ in defined)

    def _imports_unseen(self, source: Source) -> bool:
        """Whether a file imports one that lies near it, and is none of these: what that seeds is not known."""
        folder = os.path.dirname(os.path.abspath(source.path))
        for node in source.every(ast.Import, ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            names = {f"{module}.{alias.name}".strip(".") for alias in node.names} | {module} - {""}
            roots = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"torch", "numpy"}
            if any(self._is_near(folder, root) for root in roots) and not any(
                one.is_meant(parts)
                for parts in (tuple(name.split(".")) for name in names)
                for one in self._by_stem[parts[-1]]
            ):
                return True
        return False

    @remembered
    def _is_near(self, folder: str, root: str) -> bool:
        """Whether a module or package lies in a folder, or not far above it."""
        homes = [PurePath(folder), *PurePath(folder).parents][:_FOLDERS]
        return any(os.path.exists(home / f"{root}.py") or os.path.isdir(home / root) for home in homes)

    def lacks_seed(self, source: Source, library: str) -> bool:
        """Whether no script that a file is part of seeds a generator.

        Not where it is part of none, nor where a script of another folder uses it: of a library, some may not be seen.
        """
        entries, here = self.entries_of(source), PurePath(source.path)
        is_known = bool(entries) and all(here.is_relative_to(PurePath(entry.path).parent) for entry in entries)
        return is_known and not any({library, ALL} & self.seeds(entry) for entry in entries)

    @cached_property
    def trains(self) -> frozenset[Source]:
        """The scripts that train: they, or a file that they import by name, go backward and step."""
        return frozenset(entry for entry in self.entries if any(map(_may_train, (entry, *self.imports_of(entry)))))

    # ---- data flow

    @remembered
    def flow(self, source: Source, *others: Source) -> Flow:
        """What the expressions of a file may be, knowing what others are by themselves that it imports."""
        return Flow([source], map(self.flow, others))


# How far up a file's own packages may begin.
_FOLDERS = 3
TOP, MAIN = "<module>", "<main>"


def holder_of(source: Source, node: ast.AST) -> str:
    """The function that a node stands in, the class if that makes one; else whether only a script comes there."""
    function = next((one for one in source.around(node) if isinstance(one, Function)), None)
    if function is None:
        return MAIN if any(isinstance(one, ast.If) and _asks_for_main(one.test) for one in source.around(node)) else TOP
    if function.name in ("__init__", "__post_init__") and (holder := class_around(source, function)):
        return holder.name
    # What decorates a function may call it: a command line, a framework.
    is_registered = bool({*map(called, function.decorator_list)} - _PLAIN_DECORATORS)
    return TOP if function.name in _CALLED_FOR_US else MAIN if is_registered else function.name


_PLAIN_DECORATORS = {"property", "staticmethod", "classmethod", "cache", "lru_cache", "wraps"}
_PLAIN_DECORATORS |= {"no_grad", "inference_mode"}


# Functions that a framework calls, and that no file needs to mention.
_CALLED_FOR_US = {"forward", "setup", "configure", "worker_init_fn", "train_dataloader", "val_dataloader"}


def seeds_in(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """Each call that seeds a global generator, with its library."""
    for name, library in SEEDS.items():
        for call in source.calls[name]:
            yield library, call


def draws_in(source: Source, library: str) -> list[ast.Call]:
    """The calls that draw from a global generator, in the order of the file."""
    found = [call for name in DRAWS[library] for call in source.calls[name]]
    if library == "torch":
        found += [call for call in source.methods["DataLoader"] if is_true(argument(call, "shuffle"))]
    own = [call for call in found if not any(keyword.arg in GENERATOR_KEYWORDS for keyword in call.keywords)]
    return sorted(own, key=lambda call: (call.lineno, call.col_offset))


def splits_in(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """Each call that splits or samples data by a global generator, with its library."""
    for name, (library, roots, needs) in SPLITS.items():
        for call in source.methods[name]:
            given = [argument(call, keyword) for keyword in GENERATOR_KEYWORDS]
            given += call.args[2:] if name == "random_split" else []
            is_open = all(one is None or is_none(one) for one in given) and all(one.arg for one in call.keywords)
            is_drawing = not needs or is_true(argument(call, needs))
            if is_open and is_drawing and source.qualified(call.func).startswith(roots):
                yield library, call


def argument(call: ast.Call, name: str, position: int = 99) -> ast.expr | None:
    """What is given by a keyword, or at a position; None where it is left out."""
    found = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return call.args[position] if found is None and position < len(call.args) else found


def passed(source: Source, call: ast.Call, name: str, position: int = 99) -> ast.expr | None:
    """The same, where it may also come by `**options`."""
    given = [_item(source, keyword.value, name) for keyword in call.keywords if keyword.arg is None]
    return argument(call, name, position) or next((one for one in given if one is not None), None)


def _item(source: Source, node: ast.expr, key: str, depth: int = 3) -> ast.expr | None:
    """What a dict holds under a key, as far as its function shows: from the start, or since it was updated."""
    held, here = value_of(source, node), source.function_of(node)
    found = list[ast.expr]()
    match held:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            found = [value for own, value in pairs if isinstance(own, ast.Constant) and own.value == key]
        case ast.Call(func=ast.Name(id="dict"), keywords=given):
            found = [one.value for one in given if one.arg == key]
    for call in source.methods["update"] if depth and dotted(node) else ():
        if dotted(owner_of(call)) == dotted(node) and source.function_of(call) is here and call.args:
            found += [one for one in [_item(source, call.args[0], key, depth - 1)] if one is not None]
    return found[-1] if found else None


_COUNTER = re.compile(r"(.*_)?(epoch|step|iteration|iter_num)s?(_run)?", re.IGNORECASE)


def checkpoint_part(node: ast.expr) -> tuple[str, str]:
    """What holds a part, and the name of that: `state` and `epoch` of `state["epoch"]`; twice nothing of others."""
    match node:
        case ast.Subscript(value=holder, slice=ast.Constant(value=str(name))):
            return dotted(holder), name
        case ast.Call(func=ast.Attribute(value=holder, attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return dotted(holder), name
        case ast.Attribute(value=holder, attr=name):
            return dotted(holder), name
    return "", ""


def counters_from(source: Source) -> Iterator[tuple[ast.Assign, str, str]]:
    """Where something is assigned a count of epochs or steps that something else holds: `start = state["epoch"] + 1`.

    Each with what holds it, and what it is called there.
    """
    for node in source.every(ast.Assign):
        for part in walk(node.value):
            holder, name = checkpoint_part(part) if isinstance(part, ast.expr) else ("", "")
            if _COUNTER.fullmatch(name):
                yield node, holder, name


def is_parameter(source: Source, node: ast.AST) -> bool:
    """Whether it is one of its function of which nothing is promised: what it is, callers know."""
    function = source.function_of(node)
    own = parameters(function.args) if isinstance(function, Function) else []
    return any(arg.arg == dotted(node) and arg.annotation is None for arg, _ in own)


def is_checked(source: Source, node: ast.AST) -> bool:
    """Whether it stands where something is known to be an instance of some type, as `isinstance(x, list)` says."""
    tests = (one.test for one in source.around(node) if isinstance(one, ast.If))
    return any(isinstance(test, ast.Call) and last_name(test.func) == "isinstance" for test in tests)


def is_true(node: ast.AST | None) -> bool:
    """Whether it is written as True."""
    return isinstance(node, ast.Constant) and node.value is True


def value_of(source: Source, node: ast.expr) -> ast.expr:
    """What a name was assigned, where that happens once in its function or at the top of the file; else itself."""
    if not isinstance(node, ast.Name):
        return node
    here = source.function_of(node)
    assigned = source.assigned[node.id]
    near = [one for one in assigned if source.function_of(one) is here] or [
        one for one in assigned if isinstance(source.function_of(one), ast.Module)
    ]
    is_given = isinstance(here, Function) and any(arg.arg == node.id for arg, _ in parameters(here.args))
    return near[0].value if len(near) == 1 and not (is_given and near[0] not in walk(here)) else node


def parts_of(source: Source, node: ast.expr, depth: int = 3) -> Iterator[ast.AST]:
    """Everything in an expression, and in what its names were assigned."""
    for part in walk(node):
        yield part
        if isinstance(part, ast.Name) and depth and (value := value_of(source, part)) is not part:
            yield from parts_of(source, value, depth - 1)


def loop_around(source: Source, node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
    """The innermost loop around it, in the same function."""
    for one in source.around(node):
        if isinstance(one, Function | ast.Lambda | ast.ClassDef):
            return None
        if isinstance(one, ast.For | ast.AsyncFor | ast.While):
            return one
    return None


def statements_above(source: Source, node: ast.AST) -> list[ast.stmt]:
    """The statements of its function above it: in its block, and in those around that."""
    found: list[ast.stmt] = []
    for one in (node, *source.around(node)):
        if isinstance(one, Function | ast.ClassDef):
            break
        block: list[ast.stmt] = getattr(source.parents.get(one), "body", []) if isinstance(one, ast.stmt) else []
        found = [*(block[: block.index(one)] if one in block else ()), *found]
    return found


def class_around(source: Source, node: ast.AST) -> ast.ClassDef | None:
    """The innermost class around it."""
    return next((one for one in source.around(node) if isinstance(one, ast.ClassDef)), None)


def is_for_none(source: Source, node: ast.AST) -> bool:
    """Whether it stands for what the caller did not give: `if seed is None: …`, `seed or …`."""
    inner = node
    for one in source.around(node):
        match one:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return False
            case ast.BoolOp(op=ast.Or(), values=[first, *_]) if inner is not first:
                return True
            case ast.If(test=test) | ast.IfExp(test=test) if inner is not test:
                given, is_none = asked(test)
                body = one.body if isinstance(one.body, list) else [one.body]
                if (inner in body) == is_none and not ast.unparse(given).startswith("self."):
                    return True
        inner = one
    return False


def asked(test: ast.expr) -> tuple[ast.expr, bool]:
    """What a test asks for, and whether it holds where that is None, or stands for nothing."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=given):
            return given, True
        case ast.Compare(left=given, ops=[ast.IsNot() | ast.NotEq() | ast.GtE() | ast.Gt()]):
            return given, False
        case ast.Compare(left=given):
            return given, True
    return test, False


def _may_train(source: Source) -> bool:
    steps = source.words & {"step", "grad"}  # by an optimizer, or by hand
    return bool(steps and "backward" in source.words) or {"Trainer", "fit"} <= source.words


def _is_entry(source: Source) -> bool:
    if source.path.endswith(".ipynb"):
        return True
    for node in source.tree.body:
        if isinstance(node, ast.If) and _asks_for_main(node.test):
            return True
    backward = {source.function_of(call) for call in source.methods["backward"]}
    names = {"backward", "step", "fit", "main", *(one.name for one in backward if isinstance(one, Function))}
    tops = [call for name in names for call in source.methods[name]]
    return any(isinstance(source.function_of(call), ast.Module) for call in tops)


def _asks_for_main(test: ast.expr) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "__name__" for one in walk(test))


def _shared(a: Iterable[str], b: Iterable[str]) -> int:
    """How many are the same from the start."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def set_to(source: Source, name: str) -> Iterator[tuple[ast.Assign, ast.expr]]:
    """Where something of a library is assigned, and what."""
    last = name.rpartition(".")[2]
    for node in source.every(ast.Assign) if last in source.words else ():
        if any(last_name(target) == last and source.qualified(target) == name for target in node.targets):
            yield node, node.value
