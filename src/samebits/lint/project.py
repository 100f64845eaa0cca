"""Projects: files that are read together, and facts that rules need of them: what a script imports, seeds and draws."""

from __future__ import annotations

import ast
import itertools
import os
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePath
from typing import Any, Concatenate, ParamSpec, TypeVar

from samebits.lint.flow import Flow
from samebits.lint.libraries import ALL, DRAWS, GENERATOR_KEYWORDS, SEEDS, SPLITS, is_seed_helper
from samebits.lint.source import Function, Index, Source, called, dotted, is_none, last_name, owner_of, parameters, walk

P = ParamSpec("P")
T = TypeVar("T")
# Names of loaders and samplers from which a model is evaluated.
EVALUATION = re.compile(
    r"(?:.*_)?(val|valid|validation|test|eval|dev)_?(loader|dl|dataloader|iter|sampler)?", re.IGNORECASE
)
_DATASETS = ("Dataset", "DataPipe", "ImageFolder", "DatasetFolder")


def memoized(ask: Callable[Concatenate[Project, P], T]) -> Callable[Concatenate[Project, P], T]:
    """Wrap a function of a project so that the project keeps its results, one for each set of arguments."""

    def answer(project: Project, /, *given: P.args, **named: P.kwargs) -> T:
        results, key = project.known[ask], (*given, *named.items())
        if key not in results:
            results[key] = ask(project, *given, **named)
        result: T = results[key]
        return result

    return answer


class Project:
    """The sources of some paths, with facts that no single line shows."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = sources
        self.known: dict[object, dict[Any, Any]] = defaultdict(dict)

    # ---- files

    @cached_property
    def _by_stem(self) -> dict[str, list[Source]]:
        return Index(("".join(source.module[-1:]), source) for source in self.sources)

    @memoized
    def imports_of(self, source: Source) -> frozenset[Source]:
        """Return the project's files that a file imports; of several whose names fit an import, the nearest."""
        wanted = {alias.name for node in source.every(ast.Import) for alias in node.names}
        for node in source.every(ast.ImportFrom):
            wanted |= {f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names}
            wanted.add(node.module or "")
        files: set[Source] = set()
        for name in wanted - {""}:
            parts = tuple(name.split("."))
            fitting = [file for file in self._by_stem[parts[-1]] if file is not source and file.is_meant(parts)]
            if fitting:
                files.add(max(fitting, key=lambda one: _shared(one.module, source.module)))
        return frozenset(files)

    @memoized
    def closure(self, source: Source) -> frozenset[Source]:
        """Return a file and all files that it imports, directly or not."""
        files, waiting = {source}, [source]
        while waiting:
            new = self.imports_of(waiting.pop()) - files
            files |= new
            waiting += new
        return frozenset(files)

    @cached_property
    def entries(self) -> list[Source]:
        """The scripts: notebooks, files that test `__name__`, and files that train at their top level."""
        return [source for source in self.sources if _is_entry(source)]

    @memoized
    def entries_of(self, source: Source) -> list[Source]:
        """Return the scripts that a file is part of."""
        return [entry for entry in self.entries if source in self.closure(entry)]

    @memoized
    def files_of_scripts(self, source: Source) -> frozenset[Source]:
        """Return a file, every script that it is part of, and all files that these import."""
        return self.closure(source).union(*map(self.closure, self.entries_of(source)))

    def is_mentioned(self, sources: Iterable[Source], *words: str) -> bool:
        """Whether one of some words is a name, or the last part of an attribute, in some files."""
        return any(word in source.words for source in sources for word in words)

    def loaders(self, source: Source) -> list[tuple[Source, ast.Call]]:
        """Return the calls that make a loader in the scripts that a file is part of, each with its file."""
        return [(file, call) for file in self.files_of_scripts(source) for call in file.methods["DataLoader"]]

    def has_workers(self, source: Source) -> bool:
        """Whether a loader in the scripts that a file is part of may have workers."""
        numbers = [argument(call, "num_workers", 5) for _, call in self.loaders(source)]
        return any(number is not None and getattr(number, "value", 1) != 0 for number in numbers)

    # ---- functions and classes

    @cached_property
    def functions(self) -> Mapping[str, list[tuple[Source, Function]]]:
        """All functions by their names."""
        kinds = ast.FunctionDef, ast.AsyncFunctionDef
        return Index((node.name, (source, node)) for source in self.sources for node in source.every(*kinds))

    def function(self, source: Source, name: str) -> tuple[Source, Function] | None:
        """Return the function that a file means by a name, its own or else one that it imports, with its file."""
        pairs = self.functions[name]
        near = [pair for pair in pairs if pair[0] is source] or [p for p in pairs if p[0] in self.closure(source)]
        return near[0] if near else None

    @cached_property
    def classes(self) -> Mapping[str, list[tuple[Source, ast.ClassDef]]]:
        """All classes by their names."""
        return Index((node.name, (source, node)) for source in self.sources for node in source.every(ast.ClassDef))

    def has_base_named(self, node: ast.ClassDef, *endings: str) -> bool:
        """Whether a base of a class, direct or not, has a name with one of these endings."""
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
        """Whether a class may be a dataset for a DataLoader: it has a length and items, or a base named as one."""
        methods = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
        return {"__getitem__", "__len__"} <= methods or self.has_base_named(node, *_DATASETS)

    @memoized
    def models_in(self, source: Source) -> list[ast.Call]:
        """Return the calls `Net()` or `Net.from_name()` in a file that make models of the project, and draw layers."""
        calls: list[Any] = []
        for name in source.words & self.classes.keys():
            classes = [node for home, node in self.classes[name] if home in self.closure(source)]
            for node in source.named[name] if any(self.has_base_named(cls, "Module") for cls in classes) else ():
                parent = source.parents[node]
                maker = parent if isinstance(parent, ast.Attribute) and parent.attr.startswith("from_") else node
                if source.is_called(maker):
                    calls.append(source.parents[maker])
        return sorted(calls, key=lambda call: (call.lineno, call.col_offset))

    # ---- seeds and draws

    @memoized
    def seeds(self, entry: Source) -> frozenset[str]:
        """Return whose generators a script seeds: `torch`, `numpy`, `random`; `*` where unseen code may seed them."""
        closure = self.closure(entry)
        seeded = {
            library
            for source in closure
            for library, holder in self._seeding(source)
            if holder == TOP or (holder == MAIN and source is entry) or any(holder in file.words for file in closure)
        }
        siblings = [file for file in closure if os.path.dirname(file.path) == os.path.dirname(entry.path)]
        return frozenset(seeded | {ALL} if any(map(self._imports_unseen, {entry, *siblings})) else seeded)

    @memoized
    def _seeding(self, source: Source) -> frozenset[tuple[str, str]]:
        """Return the libraries that a file seeds, each with the holder of the call (see `holder_of`)."""
        seeding = {(library, holder_of(source, call)) for library, call in seeds_in(source)}
        # What is handed on, as in `for seed in (random.seed, torch.manual_seed)`, may be called anywhere, for anything.
        seeding |= {(ALL, holder_of(source, node)) for node in handed_on(source, SEEDS)}
        for name, calls in source.calls.items():
            if is_seed_helper(name) and not self._is_here(source, last_name(calls[0].func)):
                seeding |= {(ALL, holder_of(source, call)) for call in calls}
        return frozenset(seeding)

    def _is_here(self, source: Source, name: str) -> bool:
        """Whether a function or class is defined in a file or in one that it imports."""
        defined = (*self.functions[name], *self.classes[name])
        return any(file in self.closure(source) for file, _ in defined)

    def _imports_unseen(self, source: Source) -> bool:
        """Whether a file imports one that lies near it and is not in the project, so that its seeds are unknown."""
        folder = os.path.dirname(os.path.abspath(source.path))
        for node in source.every(ast.Import, ast.ImportFrom):
            module = getattr(node, "module", None) or ""
            names = {f"{module}.{alias.name}".strip(".") for alias in node.names} | {module} - {""}
            roots = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"torch", "numpy"}
            if any(self._is_near(folder, root) for root in roots) and not any(
                file.is_meant(parts)
                for parts in (tuple(name.split(".")) for name in names)
                for file in self._by_stem[parts[-1]]
            ):
                return True
        return False

    @memoized
    def _is_near(self, folder: str, root: str) -> bool:
        """Whether a module or package lies in a folder, or in one of the nearest folders above it."""
        homes = [PurePath(folder), *PurePath(folder).parents][:_FOLDERS]
        return any(os.path.exists(home / f"{root}.py") or os.path.isdir(home / root) for home in homes)

    def lacks_seed(self, source: Source, library: str) -> bool:
        """Whether a file is part of scripts, and none of them seeds a library's generator.

        False where a script uses the file that does not lie above it: the file is a library, and may have more users.
        """
        entries, here = self.entries_of(source), PurePath(source.path)
        is_known = bool(entries) and all(here.is_relative_to(PurePath(entry.path).parent) for entry in entries)
        return is_known and not any({library, ALL} & self.seeds(entry) for entry in entries)

    @cached_property
    def trains(self) -> frozenset[Source]:
        """The scripts that train: they, or files that they import directly, mention a backward pass and a step."""
        return frozenset(entry for entry in self.entries if any(map(_may_train, (entry, *self.imports_of(entry)))))

    # ---- data flow

    @memoized
    def flow(self, source: Source, *others: Source) -> Flow:
        """Return the data flow of a file, built on the separate data flow of each of the other files."""
        return Flow([source], map(self.flow, others))


# In how many folders, from a file's own upwards, its packages are looked for.
_FOLDERS = 3
TOP, MAIN = "<module>", "<main>"  # run by every import, or by a framework; run by scripts only


def holder_of(source: Source, node: ast.AST) -> str:
    """Return the name of the function around a node, or of the class for its `__init__`; TOP or MAIN for others."""
    function = next((one for one in source.ancestors(node) if isinstance(one, Function)), None)
    if function is None:
        return (
            MAIN if any(isinstance(one, ast.If) and _asks_for_main(one.test) for one in source.ancestors(node)) else TOP
        )
    if function.name in ("__init__", "__post_init__") and (holder := class_around(source, function)):
        return holder.name
    # A decorator may call its function: that of a command line, or of a framework.
    is_registered = bool({*map(called, function.decorator_list)} - _PLAIN_DECORATORS)
    return TOP if function.name in _CALLED_FOR_US else MAIN if is_registered else function.name


_PLAIN_DECORATORS = {"property", "staticmethod", "classmethod", "cache", "lru_cache", "wraps"}
_PLAIN_DECORATORS |= {"no_grad", "inference_mode"}


# Functions that a framework calls, and that no file needs to mention.
_CALLED_FOR_US = {"forward", "setup", "configure", "worker_init_fn", "train_dataloader", "val_dataloader"}


def seeds_in(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """The calls that seed a global generator, each with its library."""
    for name, library in SEEDS.items():
        for call in source.calls[name]:
            yield library, call


def handed_on(source: Source, names: Collection[str]) -> Iterator[ast.expr]:
    """The mentions of functions, by their qualified names, that are no calls of them."""
    known_as = {name.rpartition(".")[2] for name in names} | {own for own, n in source.imported.items() if n in names}
    for node in source.named.of(known_as):
        if source.qualified(node) in names and not source.is_called(node):
            yield node


def draws_in(source: Source, library: str) -> list[ast.Call]:
    """Return the calls that draw from a library's global generator, in the order of the file."""
    calls = source.calls.of(DRAWS[library])
    if library == "torch":
        calls += [call for call in source.methods["DataLoader"] if is_true(argument(call, "shuffle"))]
    draws = [call for call in calls if not any(keyword.arg in GENERATOR_KEYWORDS for keyword in call.keywords)]
    return sorted(draws, key=lambda call: (call.lineno, call.col_offset))


def splits_in(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """The calls that split or sample data by a global generator, each with its library."""
    for name, (library, package, needs, *_) in SPLITS.items():
        for call in source.methods[name]:
            seeds = [argument(call, keyword) for keyword in GENERATOR_KEYWORDS]
            seeds += call.args[2:] if name == "random_split" else []
            is_global = all(one is None or is_none(one) for one in seeds) and all(one.arg for one in call.keywords)
            is_drawing = not needs or is_true(argument(call, needs))
            if is_global and is_drawing and source.qualified(call.func).startswith(package):
                yield library, call


def argument(call: ast.Call, name: str, position: int = 99) -> ast.expr | None:
    """Return the argument that a call passes by a keyword, or at a position; None where it is left out."""
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return call.args[position] if named is None and position < len(call.args) else named


def argument_or_option(source: Source, call: ast.Call, name: str, position: int = 99) -> ast.expr | None:
    """Return an argument as `argument` does, or from a dict that is passed as `**options`."""
    items = [_item(source, keyword.value, name) for keyword in call.keywords if keyword.arg is None]
    return argument(call, name, position) or next((item for item in items if item is not None), None)


def _item(source: Source, node: ast.expr, key: str, depth: int = 3) -> ast.expr | None:
    """Return the item of a dict under a key, from where the dict is made or last updated; None where none is seen."""
    start, here = value_of(source, node), source.function_of(node)
    items = list[ast.expr]()
    match start:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            items = [value for name, value in pairs if isinstance(name, ast.Constant) and name.value == key]
        case ast.Call(func=ast.Name(id="dict"), keywords=keywords):
            items = [keyword.value for keyword in keywords if keyword.arg == key]
    for call in source.methods["update"] if depth and dotted(node) else ():
        if dotted(owner_of(call)) == dotted(node) and source.function_of(call) is here and call.args:
            items += [item for item in [_item(source, call.args[0], key, depth - 1)] if item is not None]
    return items[-1] if items else None


_COUNTER = re.compile(r"(.*_)?(epoch|step|iteration|iter_num)s?(_run)?", re.IGNORECASE)


def checkpoint_part(node: ast.expr) -> tuple[str, str]:
    """Return holder and name of a part of a checkpoint: `state` and `epoch` for `state["epoch"]`; else empty texts."""
    match node:
        case ast.Subscript(value=holder, slice=ast.Constant(value=str(name))):
            return dotted(holder), name
        case ast.Call(func=ast.Attribute(value=holder, attr="get"), args=[ast.Constant(value=str(name)), *_]):
            return dotted(holder), name
        case ast.Attribute(value=holder, attr=name):
            return dotted(holder), name
    return "", ""


def counters_from(source: Source) -> Iterator[tuple[ast.Assign, str, str]]:
    """The assignments of a count of epochs or steps that something holds: `start = state["epoch"] + 1`.

    Each comes with the holder, and the name that the count has there.
    """
    for node in source.every(ast.Assign):
        for part in walk(node.value):
            holder, name = checkpoint_part(part) if isinstance(part, ast.expr) else ("", "")
            if _COUNTER.fullmatch(name):
                yield node, holder, name


def is_parameter(source: Source, node: ast.AST) -> bool:
    """Whether a node names a parameter of its function without an annotation: only callers know its type."""
    function = source.function_of(node)
    pairs = parameters(function.args) if isinstance(function, Function) else []
    return any(arg.arg == dotted(node) and arg.annotation is None for arg, _ in pairs)


def is_type_tested(source: Source, node: ast.AST) -> bool:
    """Whether a node stands in an `if` that tests a type, such as `if isinstance(x, list)`."""
    tests = (outer.test for outer in source.ancestors(node) if isinstance(outer, ast.If))
    return any(isinstance(test, ast.Call) and last_name(test.func) == "isinstance" for test in tests)


def is_true(node: ast.AST | None) -> bool:
    """Whether an expression is written as True."""
    return isinstance(node, ast.Constant) and node.value is True


def value_of(source: Source, node: ast.expr) -> ast.expr:
    """Return the value of a name that is assigned once in its function, or else once at the top; otherwise the node."""
    if not isinstance(node, ast.Name):
        return node
    here = source.function_of(node)
    assigned = source.assigned[node.id]
    near = [one for one in assigned if source.function_of(one) is here] or [
        one for one in assigned if isinstance(source.function_of(one), ast.Module)
    ]
    is_parameter_here = isinstance(here, Function) and any(arg.arg == node.id for arg, _ in parameters(here.args))
    return near[0].value if len(near) == 1 and not (is_parameter_here and near[0] not in walk(here)) else node


def parts_of(source: Source, node: ast.expr, depth: int = 3) -> Iterator[ast.AST]:
    """The nodes of an expression, and of the values that its names were assigned."""
    for part in walk(node):
        yield part
        if isinstance(part, ast.Name) and depth and (value := value_of(source, part)) is not part:
            yield from parts_of(source, value, depth - 1)


def loop_around(source: Source, node: ast.AST) -> ast.For | ast.AsyncFor | ast.While | None:
    """Return the innermost loop around a node, in the same function."""
    for outer in source.ancestors(node):
        if isinstance(outer, Function | ast.Lambda | ast.ClassDef):
            return None
        if isinstance(outer, ast.For | ast.AsyncFor | ast.While):
            return outer
    return None


RANK = re.compile(r"((.*_)?rank|process_index)", re.IGNORECASE)


def names_rank(source: Source, node: ast.expr) -> bool:
    """Whether an expression, or a value that its names were assigned, names a rank."""
    return any(RANK.fullmatch(last_name(part)) for part in parts_of(source, node))


def statements_above(source: Source, node: ast.AST) -> list[ast.stmt]:
    """Return the statements above a node in its function: those of its block, and of the blocks around that."""
    above: list[ast.stmt] = []
    for part in (node, *source.ancestors(node)):
        if isinstance(part, Function | ast.ClassDef):
            break
        block: list[ast.stmt] = getattr(source.parents.get(part), "body", []) if isinstance(part, ast.stmt) else []
        above = [*(block[: block.index(part)] if part in block else ()), *above]
    return above


def class_around(source: Source, node: ast.AST) -> ast.ClassDef | None:
    """Return the innermost class around a node; None where there is none."""
    return next((outer for outer in source.ancestors(node) if isinstance(outer, ast.ClassDef)), None)


def is_none_fallback(source: Source, node: ast.AST) -> bool:
    """Whether a node is evaluated only where the caller gave nothing: `if seed is None: …`, `seed or …`."""
    inner = node
    for outer in source.ancestors(node):
        match outer:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return False
            case ast.BoolOp(op=ast.Or(), values=[first, *_]) if inner is not first:
                return True
            case ast.If(test=test) | ast.IfExp(test=test) if inner is not test:
                tested, holds_for_none = tested_for_none(test)
                body = outer.body if isinstance(outer.body, list) else [outer.body]
                if (inner in body) == holds_for_none and not ast.unparse(tested).startswith("self."):
                    return True
        inner = outer
    return False


def tested_for_none(test: ast.expr) -> tuple[ast.expr, bool]:
    """Return the expression that a test is about, and whether the test holds where that is None or the like."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=tested):
            return tested, True
        case ast.Compare(left=tested, ops=[ast.IsNot() | ast.NotEq() | ast.GtE() | ast.Gt()]):
            return tested, False
        case ast.Compare(left=tested):
            return tested, True
    return test, False


def _may_train(source: Source) -> bool:
    steps = source.words & {"step", "grad"}  # by an optimizer, or by hand
    return bool(steps and "backward" in source.words) or {"Trainer", "fit"} <= source.words


def _is_entry(source: Source) -> bool:
    if source.path.endswith(".ipynb"):
        return True
    if any(isinstance(node, ast.If) and _asks_for_main(node.test) for node in source.tree.body):
        return True
    backward = {source.function_of(call) for call in source.methods["backward"]}
    names = {"backward", "step", "fit", "main", *(one.name for one in backward if isinstance(one, Function))}
    return any(isinstance(source.function_of(call), ast.Module) for call in source.methods.of(names))


def _asks_for_main(test: ast.expr) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "__name__" for one in walk(test))


def _shared(a: Iterable[str], b: Iterable[str]) -> int:
    """Return how many items two sequences share from the start."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def assignments_to(source: Source, name: str) -> Iterator[tuple[ast.Assign, ast.expr]]:
    """The assignments to an attribute of a library, by its qualified name, each with the assigned value."""
    last = name.rpartition(".")[2]
    for node in source.every(ast.Assign) if last in source.words else ():
        if any(last_name(target) == last and source.qualified(target) == name for target in node.targets):
            yield node, node.value
