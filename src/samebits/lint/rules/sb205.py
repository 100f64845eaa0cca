"""Results are taken in the order in which they happen to be done.

`as_completed` and `imap_unordered` give whatever is ready first, and a queue what was put first: lists that are filled
so, and floats that are added up so, come out otherwise in each run.

    for future in as_completed(futures):
        rows.append(future.result())
    data = torch.tensor(rows)

In the order of the tasks:

    for future in futures:
        rows.append(future.result())
    data = torch.tensor(rows)
"""

import ast

from samebits.lint.order_flow import OrderTracker
from samebits.lint.project import argument, loop_around
from samebits.lint.rule import Finding, Findings, Project, Rule, Source
from samebits.lint.source import last_name, walk

_LOOPS = (ast.For, ast.While, ast.ListComp, ast.GeneratorExp)


@Rule("warning", factors=("completion-order",), fix="safe")
def find(project: Project, source: Source) -> Findings:
    """Results that are collected as they are done, where their order is used; also loaders that keep no order."""
    for call in (*source.methods["as_completed"], *source.methods["imap_unordered"]):
        if _is_kept(OrderTracker(project), source, call):
            yield Finding.at(source, call, f"takes results in the order in which {last_name(call.func)}() has them")
    for call in source.methods["get"] if source.methods["Process"] else ():
        if _is_shared(source, call) and _is_collected(OrderTracker(project), source, call):
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


def _is_collected(following: OrderTracker, source: Source, call: ast.Call) -> bool:
    """Whether the results of a call fill a list whose order is used."""
    parent, loop = source.parents[call], loop_around(source, call)
    if isinstance(parent, ast.ListComp):
        return bool(following.uses(source, parent, "done"))
    return isinstance(loop, ast.For) and _keeps(following, source, parent, loop)


def _is_kept(following: OrderTracker, source: Source, node: ast.expr) -> bool:
    parent = source.parents[node]
    match parent:
        case ast.Call() if last_name(parent.func) in ("enumerate", "tqdm", "track"):
            return _is_kept(following, source, parent)
        case ast.Call() if last_name(parent.func) == "list":
            return bool(following.uses(source, parent, "done"))
        case ast.comprehension():
            outer = source.parents[parent]
            return isinstance(outer, ast.ListComp) and bool(following.uses(source, outer, "done"))
        case ast.For() | ast.AsyncFor():
            return any(_keeps(following, source, part, parent) for each in parent.body for part in walk(each))
    return False


def _keeps(following: OrderTracker, source: Source, node: ast.AST, loop: ast.For | ast.AsyncFor) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="append" | "extend", value=owner), args=[_]):
            return bool(following.later_uses(source, owner, loop, "done"))
        case ast.AugAssign(op=ast.Add(), value=ast.Name(id=name)) if name == last_name(loop.target):
            return bool(following.later_uses(source, node.target, loop, "done"))
        case ast.AugAssign(op=ast.Add(), value=value):
            return any(isinstance(part, ast.Call) and last_name(part.func) == "result" for part in walk(value))
    return isinstance(node, ast.Yield)
