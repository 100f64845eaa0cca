"""What becomes of things that have no order: followed through names, attributes, loops and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal, NamedTuple

from samebits.lint.hash_order import is_numbering
from samebits.lint.project import Project, class_around, parts_of
from samebits.lint.source import Function, Source, dotted, last_name, parameters, walk

# What gives back the members of a list in its order.
_KEEPING = {"list", "tuple", "iter", "tqdm", "enumerate", "reversed", "map", "filter", "cycle", "chain", "array", "run"}
# What makes data of a list, or deals its members out by their places.
_SINKS = {
    **dict.fromkeys(["random_split", "train_test_split", "Subset", "ConcatDataset", "DataLoader"], "split or batched"),
    **dict.fromkeys(["shuffle", "permutation", "sample", "choice", "choices"], "drawn from by place"),
    **dict.fromkeys(["stack", "cat", "tensor", "concatenate", "concat", "vstack", "hstack", "from_numpy"], "stacked"),
}
_FILLING = {"append": 0, "extend": 0, "insert": 1}


# What has no order: files of a folder, which have one on one disk; members of a set; results as they are done.
Kind = Literal["listing", "set", "done"]


class Use(NamedTuple):
    """What the order is used for.

    Attributes:
        kind: order, slice (dealt out by a step) or zip.
        how: as a clause that follows "that".
        call: of a zip.
    """

    kind: str
    how: str
    call: ast.Call | None = None


class Following:
    """Where things of no order go in some files."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def uses(self, source: Source, node: ast.AST, of: Kind = "listing") -> list[Use]:
        """What the order of an expression is used for, the worst first."""
        found = [use for place, one in self.nodes(source, node) if (use := self.use(place, one, of))]
        return sorted(found, key=lambda use: use.kind, reverse=True)

    def later_uses(self, source: Source, target: ast.AST, after: ast.AST, of: Kind) -> list[Use]:
        """The same of a list that a statement has filled."""
        return [use for place, node in self.mentions(source, target, after) for use in self.uses(place, node, of)]

    def nodes(self, source: Source, node: ast.AST) -> Iterator[tuple[Source, ast.AST]]:
        """Every expression that holds it, or something in its order."""
        waiting, seen = [(source, node)], set[ast.AST]()
        while waiting and len(seen) < 200:
            here, one = waiting.pop()
            if one not in seen:
                seen.add(one)
                yield here, one
                waiting += self.next(here, one)

    def next(self, source: Source, node: ast.AST) -> list[tuple[Source, ast.AST]]:
        """What holds it where it stands."""
        parent = source.parents[node]
        match parent:
            case ast.Call() if node in parent.args and last_name(parent.func) in _KEEPING:
                return [(source, parent)]
            case ast.comprehension():
                made = source.parents[parent]
                return [(source, made)] if isinstance(made, ast.ListComp | ast.GeneratorExp) else []
            case ast.ListComp() if node is parent.elt:
                return [(source, parent)]
            case ast.Dict():
                return [(source, parent)]
            case ast.Call() if node in parent.args and (found := self.own(source, parent.func)):
                return self.given(*found, parent, node)
            case ast.Await() | ast.BinOp() | ast.IfExp() | ast.BoolOp() | ast.Starred() | ast.List():
                return [(source, parent)]
            case ast.Subscript(slice=ast.Slice()):
                return [(source, parent)]
            case ast.Attribute() if isinstance(source.parents[parent], ast.Call) and parent.attr == "copy":
                return [(source, source.parents[parent])]
            case ast.Call(func=ast.Name(id="zip")) if isinstance(node, ast.Starred):
                return [(source, parent)]
            case ast.Assign(targets=[ast.Tuple(elts=targets)]):
                return [found for target in targets for found in self.mentions(source, target, parent)]
            case ast.Assign(targets=[target]) | ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                return self.mentions(source, target, parent)
            case ast.For(body=body) if node is parent.iter:
                return [found for target in _filled(body) for found in self.mentions(source, target, parent)]
            case ast.Call(func=ast.Attribute(attr=name)) if node in parent.args and name in _FILLING:
                return self.mentions(source, parent.func.value, parent)  # type: ignore[attr-defined]
            case ast.Return():
                function = source.function_of(node)
                name = function.name if isinstance(function, Function) else ""
                # Of methods of one name it is not known whose is called.
                is_alone = len(self.project.functions[name]) == 1
                is_plain = not is_alone and class_around(source, function) is None
                return [
                    (one, call)
                    for one in (self.project.sources if is_alone or is_plain else ())
                    if is_alone or self.project.function(one, name) == (source, function)
                    for call in one.methods[name]
                ]
        return []

    def own(self, source: Source, function: ast.expr) -> tuple[Source, Function] | None:
        """The function of these files that is called: by its name, or as a method of its own object."""
        is_plain = isinstance(function, ast.Name) or dotted(function).startswith("self.")
        return self.project.function(source, last_name(function)) if is_plain else None

    def given(self, source: Source, function: Function, call: ast.Call, node: ast.AST) -> list[tuple[Source, ast.AST]]:
        """Where a function reads the parameter that it is given."""
        names = [argument.arg for argument, _ in parameters(function.args)]
        is_method = names[:1] in (["self"], ["cls"])
        place = call.args.index(node) + is_method  # type: ignore[arg-type]
        if place >= len(names):
            return []
        own = [one for one in source.named[names[place]] if source.function_of(one) is function]
        return [] if any(_sorts(source, one) for one in own) else [(source, one) for one in own]

    def mentions(self, source: Source, target: ast.AST, after: ast.AST) -> list[tuple[Source, ast.AST]]:
        """Where a name is read later on in its function; of an attribute of self, anywhere in its class."""
        name, here, holder = dotted(target), source.function_of(after), class_around(source, after)
        end = (after.end_lineno or 0, after.end_col_offset or 0)  # type: ignore[attr-defined]
        own = [node for node in source.mentions(name) if isinstance(node.ctx, ast.Load)]
        if name.startswith("self."):
            own = [node for node in own if class_around(source, node) is holder]
        else:
            near = [node for node in source.mentions(name) if source.function_of(node) is here]
            later = [node for node in near if (node.lineno, node.col_offset) >= end]
            # From where the name stands for something else, it holds this no more.
            stored = [node for node in later if isinstance(node.ctx, ast.Store)][:1]
            ends = [one.end_lineno or 0 for node in stored for one in source.around(node) if isinstance(one, ast.stmt)]
            own = [node for node in later if node in own and not (ends and node.lineno > ends[0])]
        return [] if any(_sorts(source, node) for node in own) else [(source, node) for node in own]

    def use(self, source: Source, node: ast.AST, of: Kind) -> Use | None:
        """What the order of an expression is used for, if that matters."""
        parent, holder = source.parents[node], class_around(source, node)
        match parent:
            case ast.Call() if node in parent.args or node in [keyword.value for keyword in parent.keywords]:
                name = last_name(parent.func)
                if name == "zip" and of == "listing":
                    return Use("zip", "is paired with another one by zip()", parent)
                if name == "zip" and of == "set":
                    first, *others = (_gone_over(source, one) for one in parent.args)
                    is_shared = any(first & one for one in others)  # all are in one order
                    return None if is_shared else Use("order", "is paired by its places")
                if name == "tensor" and of == "set" and not (isinstance(node, ast.ListComp) and _computes(node)):
                    return None  # what a tensor can be made of are numbers, which hash alike everywhere
                if name in ("save", "dump", "to_csv") and of != "listing" and isinstance(parent.func, ast.Attribute):
                    return Use("order", f"is saved by {name}()")
                if name in _SINKS or name.endswith("Dataset"):
                    return Use("order", f"is {_SINKS.get(name, 'made a dataset')} by {name}()")
                if name == "enumerate" and of == "set" and isinstance(source.parents[parent], ast.For):
                    return Use("order", "is numbered")
                if name == "enumerate" and isinstance(source.parents[parent], ast.comprehension):
                    made = source.parents[source.parents[parent]]
                    return Use("order", "is numbered") if isinstance(made, ast.DictComp) else None
            case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper, step=step)):
                if step is not None and lower is not None:
                    return Use("slice", "is dealt out by a step")
                ends = [one for one in (lower, upper) if one is not None]
                if ends and not all(isinstance(one, ast.Constant) for one in ends):
                    return Use("order", "is split by place")
            case ast.Subscript(value=value, slice=index) if value is node:
                if isinstance(index, ast.Constant | ast.UnaryOp):
                    return None  # the first one, or the last
                if of != "listing" or (holder is not None and self.project.is_dataset(holder)):
                    return Use("order", "is indexed")
            case ast.Attribute(attr="index") if of == "set":
                return Use("order", "is numbered by index()")
            case ast.For(body=body) if node is parent.iter and is_numbering(body):
                return Use("order", "is numbered")
            case ast.For(body=body) if node is parent.iter:
                names = {last_name(one.func) for each in body for one in walk(each) if isinstance(one, ast.Call)}
                if {"backward", "step"} <= names:
                    return Use("order", "is what a loop trains on")
                if of == "done" and names & {"write", "writerow"}:
                    return Use("order", "is written in a loop")
        return None


def _gone_over(source: Source, node: ast.expr) -> set[str]:
    """What it is called, and what the lists that it is made of go over."""
    loops = [part.iter for part in parts_of(source, node) if isinstance(part, ast.comprehension)]
    return {*map(dotted, (node, *loops))} - {""}


def _computes(node: ast.ListComp) -> bool:
    return not isinstance(node.elt, ast.Name)


def _filled(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The lists that a loop fills."""
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
