"""How often code runs in a program, and in how many processes; and how often things are gone over."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence

from samebits.lint.libraries import FRAMEWORKS, SEEDS, is_seed_helper
from samebits.lint.project import RANK, Project, class_around, handed_on, seeds_in
from samebits.lint.source import Function, Source, dotted, walk

# A node, the call of the function that it stands in, the call of that one's, and so on up to the top level.
Way = list[tuple[Source, ast.AST]]
_REPEATED = (ast.For, ast.AsyncFor, ast.While, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_STARTING = re.compile(r"multiprocessing|distributed|joblib|ray|Process|ProcessPoolExecutor|Pool|spawn|fork")


def way_to(project: Project, source: Source, node: ast.AST, seen: frozenset[ast.AST] = frozenset()) -> Way:
    """Return the only way to a node that runs once in a process; empty where it may run more than once, or never.

    A function runs once where its name is mentioned once, in a call that runs once: what is decorated, handed on, or a
    method may be called by others, too.
    """
    inner = node
    for outer in source.ancestors(node):
        if isinstance(outer, _REPEATED) and inner is not getattr(outer, "iter", None):
            return []
        if isinstance(outer, Function) and inner in outer.body:
            calls = _mentions(project, source, outer)
            is_plain = not outer.decorator_list and class_around(source, outer) is None and outer not in seen
            if not is_plain or len(calls) != 1 or not calls[0][0].is_called(calls[0][1]):
                return []
            further = way_to(project, *calls[0], seen | {outer})
            return further and [(source, node), *further]
        inner = outer
    return [(source, node)]


def _mentions(project: Project, source: Source, function: Function) -> list[tuple[Source, ast.Name | ast.Attribute]]:
    """Return the mentions of a function in its file and those that import it; of one with two names, none."""
    users = [file for file in project.sources if file is source or source in project.imports_of(file)]
    for file in users:
        for own, full in file.imported.items():
            if full.rpartition(".")[2] == function.name != own:
                return []
    return [(file, node) for file in users for node in file.named[function.name]]


def has_ranks(project: Project, source: Source) -> bool:
    """Whether a file is part of scripts that have ranks, or start processes other than the workers of a loader."""
    for file in project.files_of_scripts(source):
        texts = [node.value for node in file.every(ast.Constant) if isinstance(node.value, str)]
        if any(map(RANK.fullmatch, (*file.words, *texts))):
            return True
        for parts in (name.split(".") for name in file.calls):
            if any(map(_STARTING.fullmatch, parts)) or (parts[0] in FRAMEWORKS and parts[-1][:1].isupper()):
                return True
    return False


def is_torch_seeded_once(project: Project, source: Source, node: ast.AST) -> bool:
    """Whether torch is seeded once in the scripts that a file is part of, and before a node of the file runs.

    Then each draw from torch at the node is another one, and none decides the seed.
    """
    files = project.files_of_scripts(source)
    seeds = [(file, call) for file in files for library, call in seeds_in(file) if library == "torch"]
    helpers = [(file, name) for file in files for name in file.calls if is_seed_helper(name)]
    seeds += [(file, call) for file, name in helpers for call in file.calls[name]]
    is_hidden = any("fork_rng" in file.words or any(handed_on(file, SEEDS)) for file in files)
    ways = [way_to(project, *seed) for seed in seeds]
    return bool(ways) and not is_hidden and all(way and comes_first(way, source, node) for way in ways)


def comes_first(way: Way, source: Source, node: ast.AST, seen: Sequence[ast.AST] = ()) -> bool:
    """Whether a node runs only after another one, to which a way leads; what is called by others counts as later."""
    lines = {own.function_of(one): getattr(one, "lineno", 0) for own, one in way}
    here: ast.AST = node
    while isinstance(here := source.function_of(here), ast.Lambda):
        pass
    if here in lines or not isinstance(here, Function):
        return here in lines and lines[here] < getattr(node, "lineno", 0)
    owner = class_around(source, here) or here
    mentions = [one for one in source.named[owner.name] if owner not in source.ancestors(one)]
    if all(own is not source for own, _ in way):
        mentions = [one for one in mentions if not _is_skipped_by_imports(source, one)]
    return here in seen or all(comes_first(way, source, one, [*seen, here]) for one in mentions)


def _is_skipped_by_imports(source: Source, node: ast.AST) -> bool:
    tests = (outer.test for outer in source.ancestors(node) if isinstance(outer, ast.If))
    return any(isinstance(part, ast.Name) and part.id == "__name__" for test in tests for part in walk(test))


def is_used_up(source: Source, node: ast.expr) -> bool:
    """Whether all that an iterator gives is taken at once, by a loop or a builtin, so that a list does as well."""
    parent = source.parents[node]
    if isinstance(parent, ast.Call):
        return node in parent.args and hasattr(builtins, dotted(parent.func)) and dotted(parent.func) != "next"
    return getattr(parent, "iter", None) is node or isinstance(parent, ast.Starred | ast.YieldFrom)


def is_left_alone(source: Source, call: ast.Call, tasks: ast.expr) -> bool:
    """Whether tasks are not mentioned, and so not changed, where they are gone over, nor in other functions."""
    kinds = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.stmt
    loop = next(outer for outer in source.ancestors(call) if isinstance(outer, kinds))
    mentions, here = source.mentions(dotted(tasks)), source.function_of(call)
    is_known = isinstance(tasks, ast.Name) and all(source.function_of(one) is here for one in mentions)
    return is_known and not any(one in walk(loop) for one in mentions if one is not tasks)
