"""Orders that nothing keeps: of listings, and of results as they are done."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from samebits.lint.findings import Finding, Findings
from samebits.lint.order_flow import later_uses, order_uses
from samebits.lint.project import Project, argument, loop_around, value_of
from samebits.lint.rule import rule
from samebits.lint.source import Source, last_name, owner_of, walk


@rule("SB201", "error", factors=("file-order",), fix="safe")
def listing_used(project: Project, source: Source) -> Findings:
    """The order in which a folder is listed becomes data.

    `os.listdir`, `glob` and their kin give names in the order of the file system: it is the same twice on one disk, and
    another after a copy, on another machine, or once files were written anew. With the files made in reverse, every
    case split otherwise.

        paths = glob.glob("data/*.png")
        training, held_out = paths[:count], paths[count:]

    Put it in order:

        paths = sorted(glob.glob("data/*.png"))
        training, held_out = paths[:count], paths[count:]
    """
    # Unsorted listings that reach a dataset, a split, a stack, numbers or a training loop.
    return _listings(project, source, "order")


_LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp)


@rule("SB205", "warning", factors=("completion-order",), fix="safe")
def as_completed(project: Project, source: Source) -> Findings:
    """Results are taken in the order in which they happen to be done.

    `as_completed` and `imap_unordered` give whatever is ready first, and a queue what was put first: lists that are
    filled so, and floats that are added up so, come out otherwise in each run.

        for future in as_completed(futures):
            rows.append(future.result())
        data = torch.tensor(rows)

    In the order of the tasks:

        for future in futures:
            rows.append(future.result())
        data = torch.tensor(rows)
    """
    # Results that are collected as they are done, where their order is used; also loaders that keep no order.
    for call in source.methods.of(["as_completed", "imap_unordered"]):
        if _is_kept(project, source, call):
            yield Finding.at(source, call, f"takes results in the order in which {last_name(call.func)}() has them")
    for call in source.methods["get"] if source.methods["Process"] else ():
        if _is_shared(source, call) and _is_collected(project, source, call):
            yield Finding.at(source, call, "takes from a queue what several processes put there, in any order")
    for call in source.methods["DataLoader"]:
        if getattr(argument(call, "in_order"), "value", True) is False:
            yield Finding.at(source, call, "takes batches in the order in which workers have them")


def _is_shared(source: Source, call: ast.Call) -> bool:
    """Whether a call of `get` takes from a queue, in a function that starts several processes."""
    function = source.function_of(call)
    starts = [start for start in source.methods["Process"] if source.function_of(start) is function]
    # The `get` of a dict has arguments.
    return not call.args and any(isinstance(outer, _LOOPS) for start in starts for outer in source.ancestors(start))


def _is_collected(project: Project, source: Source, call: ast.Call) -> bool:
    """Whether the results of a call fill a list whose order is used."""
    parent, loop = source.parents[call], loop_around(source, call)
    if isinstance(parent, ast.ListComp):
        return bool(order_uses(project, source, parent, "done"))
    return isinstance(loop, ast.For) and _keeps(project, source, parent, loop)


def _is_kept(project: Project, source: Source, node: ast.expr) -> bool:
    parent = source.parents[node]
    match parent:
        case ast.Call() if last_name(parent.func) in ("enumerate", "tqdm", "track"):
            return _is_kept(project, source, parent)
        case ast.Call() if last_name(parent.func) == "list":
            return bool(order_uses(project, source, parent, "done"))
        case ast.comprehension():
            outer = source.parents[parent]
            return isinstance(outer, ast.ListComp) and bool(order_uses(project, source, outer, "done"))
        case ast.For() | ast.AsyncFor():
            return any(_keeps(project, source, part, parent) for each in parent.body for part in walk(each))
    return False


def _keeps(project: Project, source: Source, node: ast.AST, loop: ast.For | ast.AsyncFor) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="append" | "extend", value=owner), args=[_]):
            return bool(later_uses(project, source, owner, loop, "done"))
        case ast.AugAssign(op=ast.Add(), value=ast.Name(id=name)) if name == last_name(loop.target):
            return bool(later_uses(project, source, node.target, loop, "done"))
        case ast.AugAssign(op=ast.Add(), value=value):
            return any(isinstance(part, ast.Call) and last_name(part.func) == "result" for part in walk(value))
    return isinstance(node, ast.Yield)


@rule("SB206", "error", factors=("file-order",), fix="safe")
def listings_paired(project: Project, source: Source) -> Findings:
    """Two listings are paired by their places.

    Which image goes with which mask is left to the file system; on another disk they may be paired wrongly, without an
    error.

        for image, mask in zip(os.listdir("images"), os.listdir("masks")):
            pairs.append((image, mask))

    Put both in order:

        for image, mask in zip(sorted(os.listdir("images")), sorted(os.listdir("masks"))):
            pairs.append((image, mask))
    """
    # Unsorted listings that are paired by one zip().
    return _listings(project, source, "zip")


@rule("SB207", "error", factors=("file-order",), fix="safe")
def listing_dealt_out(project: Project, source: Source) -> Findings:
    """A listing is dealt out to ranks or shards by its places.

    Each process lists the folder itself. Where two machines list it in other orders, some files are trained on twice
    and others never.

        paths = glob.glob("shards/*.tar")[rank::world_size]

    Put it in order first:

        paths = sorted(glob.glob("shards/*.tar"))[rank::world_size]
    """
    # Unsorted listings that a slice with a start and a step deals out.
    return _listings(project, source, "slice")


# ---- listings

_FUNCTIONS = ("os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob")
# The `glob` of objects with such names lists in no order; file systems of other libraries have a `glob` that sorts.
_PATH = re.compile(r"path|dir|root|folder|/", re.IGNORECASE)
_METHODS = ("iterdir", "rglob", "glob")


def _listings(project: Project, source: Source, kind: str) -> Findings:
    """The unsorted listings whose order has one kind of use: order, slice, or zip with another listing."""
    pairs = defaultdict[ast.AST, dict[ast.AST, Finding]](dict)
    for call in _calls(source):
        uses = [] if _is_walked_in_order(source, call) else order_uses(project, source, call)
        for use in uses:
            finding = Finding.at(source, call, f"lists files in no order, and that {use.how}")
            if use.call is not None:
                pairs[use.call][call] = finding
            elif use.kind == kind == uses[0].kind or (use.kind == kind and uses[0].call is not None):
                yield finding
                break
    for findings in pairs.values() if kind == "zip" else ():
        yield from findings.values() if len(findings) > 1 else ()


def _is_path(source: Source, node: ast.expr) -> bool:
    return bool(_PATH.search(ast.unparse(node))) or ast.unparse(value_of(source, node)).startswith(
        ("Path(", "pathlib.")
    )


def _is_walked_in_order(source: Source, call: ast.Call) -> bool:
    """Whether a loop over `os.walk` sorts the folders and the files itself."""
    loop = source.parents[call]
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple):
        return False
    names = {last_name(element) for element in loop.target.elts[1:]}
    parts = [part for statement in loop.body for part in walk(statement)]
    sorted_names = {last_name(part.value) for part in parts if isinstance(part, ast.Attribute) and part.attr == "sort"}
    calls = [part for part in parts if isinstance(part, ast.Call) and last_name(part.func) == "sorted" and part.args]
    return names <= sorted_names | {last_name(call.args[0]) for call in calls}


def _calls(source: Source) -> Iterator[ast.Call]:
    """The calls that list a folder."""
    yield from source.calls.of(_FUNCTIONS)
    for name in _METHODS:
        for call in source.methods[name]:
            owner = owner_of(call)
            is_path = owner is not None and (name != "glob" or _is_path(source, owner))
            if is_path and not source.qualified(call.func).startswith("glob."):
                yield call
