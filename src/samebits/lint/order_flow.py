"""Follows unordered things through names, attributes, loops and functions, to the places that use an order of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, NamedTuple

from samebits.lint.hash_order import is_numbering
from samebits.lint.project import Project, class_around, parts_of
from samebits.lint.source import Function, Source, dotted, last_name, parameters, walk

# Functions that return the members of a list in its order.
_KEEPING = {"list", "tuple", "iter", "tqdm", "enumerate", "reversed", "map", "filter", "cycle", "chain", "array", "run"}
# Functions that make data of a list, or choose members by their positions → what happens to the list.
_SINKS = {
    **dict.fromkeys(["random_split", "train_test_split", "Subset", "ConcatDataset", "DataLoader"], "split or batched"),
    **dict.fromkeys(["shuffle", "permutation", "sample", "choice", "choices"], "drawn from by place"),
    **dict.fromkeys(["stack", "cat", "tensor", "concatenate", "concat", "vstack", "hstack", "from_numpy"], "stacked"),
}
_FILLING = {"append": 0, "extend": 0, "insert": 1}


# Unordered things: files of a folder (one disk keeps their order), members of a set, results as they are done.
Kind = Literal["listing", "set", "done"]


class Use(NamedTuple):
    """A use of the order in which unordered things happen to come.

    Attributes:
        kind: order, slice (dealt out by a step) or zip.
        how: what is done with the things, as a clause that follows "that".
        call: the call of zip(); None for other uses.
    """

    kind: str
    how: str
    call: ast.Call | None = None


def order_uses(project: Project, source: Source, node: ast.AST, of: Kind = "listing") -> list[Use]:
    """Return what the order of an expression is used for, the worst first."""
    uses = [use for file, holder in _nodes(project, source, node) if (use := _use(project, file, holder, of))]
    return sorted(uses, key=lambda use: use.kind, reverse=True)


def later_uses(project: Project, source: Source, target: ast.AST, after: ast.AST, of: Kind) -> list[Use]:
    """Return what the order of a list is used for after a statement that fills it."""
    return [use for file, node in _mentions(source, target, after) for use in order_uses(project, file, node, of)]


def _nodes(project: Project, source: Source, node: ast.AST) -> Iterator[tuple[Source, ast.AST]]:
    """An expression, and all that hold its things or results of them in the same order, each with its file."""
    waiting, seen = [(source, node)], set[ast.AST]()
    while waiting and len(seen) < 200:
        file, holder = waiting.pop()
        if holder not in seen:
            seen.add(holder)
            yield file, holder
            waiting += _holders_of(project, file, holder)


def _holders_of(project: Project, source: Source, node: ast.AST) -> list[tuple[Source, ast.AST]]:
    """Return the expressions to which an expression passes its things on in one step, each with its file."""
    parent = source.parents[node]
    match parent:
        case ast.Call() if node in parent.args and last_name(parent.func) in _KEEPING:
            return [(source, parent)]
        case ast.comprehension():
            outer = source.parents[parent]
            return [(source, outer)] if isinstance(outer, ast.ListComp | ast.GeneratorExp) else []
        case ast.ListComp() if node is parent.elt:
            return [(source, parent)]
        case ast.Call() if node in parent.args and (callee := _called_function(project, source, parent.func)):
            return _parameter_reads(*callee, parent, node)
        case ast.Await() | ast.BinOp() | ast.BoolOp() | ast.IfExp() | ast.Starred() | ast.List() | ast.Dict():
            return [(source, parent)]
        case ast.Subscript(slice=ast.Slice()):
            return [(source, parent)]
        case ast.Attribute() if isinstance(source.parents[parent], ast.Call) and parent.attr == "copy":
            return [(source, source.parents[parent])]
        case ast.Call(func=ast.Name(id="zip")) if isinstance(node, ast.Starred):
            return [(source, parent)]
        case ast.Assign(targets=[ast.Tuple(elts=targets)]):
            return [mention for target in targets for mention in _mentions(source, target, parent)]
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return _mentions(source, target, parent)
        case ast.For(body=body) if node is parent.iter:
            return [mention for target in _filled(body) for mention in _mentions(source, target, parent)]
        case ast.Call(func=ast.Attribute(attr=name)) if node in parent.args and name in _FILLING:
            return _mentions(source, parent.func.value, parent)  # type: ignore[attr-defined]
        case ast.Return():
            function = source.function_of(node)
            name = function.name if isinstance(function, Function) else ""
            # Where several methods have one name, it is not known which of them is called.
            is_alone = len(project.functions[name]) == 1
            is_plain = not is_alone and class_around(source, function) is None
            return [
                (file, call)
                for file in (project.sources if is_alone or is_plain else ())
                if is_alone or project.function(file, name) == (source, function)
                for call in file.methods[name]
            ]
    return []


def _called_function(project: Project, source: Source, function: ast.expr) -> tuple[Source, Function] | None:
    """Return the function of these files that is called by its plain name, or as a method of `self`; else None."""
    is_plain = isinstance(function, ast.Name) or dotted(function).startswith("self.")
    return project.function(source, last_name(function)) if is_plain else None


def _parameter_reads(source: Source, function: Function, call: ast.Call, node: ast.AST) -> list[tuple[Source, ast.AST]]:
    """Return the mentions, in a function, of the parameter to which a call passes a node; none if it is sorted."""
    names = [argument.arg for argument, _ in parameters(function.args)]
    is_method = names[:1] in (["self"], ["cls"])
    position = call.args.index(node) + is_method  # type: ignore[arg-type]
    if position >= len(names):
        return []
    reads = [mention for mention in source.named[names[position]] if source.function_of(mention) is function]
    return [] if any(_sorts(source, read) for read in reads) else [(source, read) for read in reads]


def _mentions(source: Source, target: ast.AST, after: ast.AST) -> list[tuple[Source, ast.AST]]:
    """Return where a name is read later in its function, or an attribute of self in its class; none if sorted."""
    name, here, holder = dotted(target), source.function_of(after), class_around(source, after)
    end = (after.end_lineno or 0, after.end_col_offset or 0)  # type: ignore[attr-defined]
    reads = [node for node in source.mentions(name) if isinstance(node.ctx, ast.Load)]
    if name.startswith("self."):
        reads = [node for node in reads if class_around(source, node) is holder]
    else:
        near = [node for node in source.mentions(name) if source.function_of(node) is here]
        later = [node for node in near if (node.lineno, node.col_offset) >= end]
        # Below the statement that assigns the name anew, it no longer holds these things.
        stored = [node for node in later if isinstance(node.ctx, ast.Store)][:1]
        ends = [one.end_lineno or 0 for node in stored for one in source.ancestors(node) if isinstance(one, ast.stmt)]
        reads = [node for node in later if node in reads and not (ends and node.lineno > ends[0])]
    return [] if any(_sorts(source, node) for node in reads) else [(source, node) for node in reads]


def _use(project: Project, source: Source, node: ast.AST, of: Kind) -> Use | None:
    """Return what the code right around an expression uses its order for; None where that does not matter."""
    parent, holder = source.parents[node], class_around(source, node)
    match parent:
        case ast.Call() if node in parent.args or node in [keyword.value for keyword in parent.keywords]:
            name = last_name(parent.func)
            if name == "zip" and of == "listing":
                return Use("zip", "is paired with another one by zip()", parent)
            if name == "zip" and of == "set":
                first, *others = (_gone_over(source, arg) for arg in parent.args)
                is_shared = any(first & other for other in others)  # of one set, so in the same order
                return None if is_shared else Use("order", "is paired by position")
            if (
                name == "tensor"
                and of == "set"
                and (not isinstance(node, ast.ListComp) or isinstance(node.elt, ast.Name))
            ):
                return None  # a tensor is made of numbers, which have the same hashes everywhere
            if name in ("save", "dump", "to_csv") and of != "listing" and isinstance(parent.func, ast.Attribute):
                return Use("order", f"is saved by {name}()")
            if name in _SINKS or name.endswith("Dataset"):
                return Use("order", f"is {_SINKS.get(name, 'made a dataset')} by {name}()")
            if name == "enumerate" and of == "set" and isinstance(source.parents[parent], ast.For):
                return Use("order", "is numbered")
            if name == "enumerate" and isinstance(source.parents[parent], ast.comprehension):
                outer = source.parents[source.parents[parent]]
                return Use("order", "is numbered") if isinstance(outer, ast.DictComp) else None
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper, step=step)):
            if step is not None and lower is not None:
                return Use("slice", "is dealt out by a step")
            ends = [end for end in (lower, upper) if end is not None]
            if ends and not all(isinstance(end, ast.Constant) for end in ends):
                return Use("order", "is split by position")
        case ast.Subscript(value=value, slice=index) if value is node:
            if isinstance(index, ast.Constant | ast.UnaryOp):
                return None  # the first one, or the last
            if of != "listing" or (holder is not None and project.is_dataset(holder)):
                return Use("order", "is indexed")
        case ast.Attribute(attr="index") if of == "set":
            return Use("order", "is numbered by index()")
        case ast.For(body=body) if node is parent.iter and is_numbering(body):
            return Use("order", "is numbered")
        case ast.For(body=body) if node is parent.iter:
            names = {last_name(part.func) for each in body for part in walk(each) if isinstance(part, ast.Call)}
            if {"backward", "step"} <= names:
                return Use("order", "is what a loop trains on")
            if of == "done" and names & {"write", "writerow"}:
                return Use("order", "is written in a loop")
    return None


def _gone_over(source: Source, node: ast.expr) -> set[str]:
    """Return the names of an expression and of what the comprehensions that it is made of iterate over."""
    loops = [part.iter for part in parts_of(source, node) if isinstance(part, ast.comprehension)]
    return {*map(dotted, (node, *loops))} - {""}


def _filled(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The lists that the body of a loop fills."""
    for statement in body:
        for node in walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FILLING:
                yield node.func.value
            elif isinstance(node, ast.AugAssign) and isinstance(node.value, ast.List | ast.ListComp):
                yield node.target


def _sorts(source: Source, node: ast.AST) -> bool:
    parent = source.parents[node]
    return (isinstance(parent, ast.Attribute) and parent.attr == "sort") or (
        isinstance(parent, ast.Call) and last_name(parent.func) == "sorted"
    )
