"""Whether code looks at an order: read off the syntax alone."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from samebits.lint.flow.callables import BLIND_BUILTINS
from samebits.lint.flow.source import Source, dotted, last_name

TOTAL_KEYS = {"str", "repr", "int", "float", "ord", "fspath"}


def may_tie(node: ast.Call) -> bool:
    """Whether a call sorts by a key that two members of a set may share."""
    keys = [keyword.value for keyword in node.keywords if keyword.arg == "key"]
    if keys and isinstance(keys[0], ast.Lambda):
        names = {argument.arg for argument in keys[0].args.args}
        body = keys[0].body
        parts = body.elts if isinstance(body, ast.Tuple) else [body]
        return not any(isinstance(part, ast.Name) and part.id in names for part in parts)
    return bool(keys) and last_name(keys[0]) not in TOTAL_KEYS and not isinstance(keys[0], ast.Constant)


def is_sorted_later(source: Source, name: str, after: ast.stmt) -> bool:
    """Whether, after a statement, nothing looks at the order of a list before it is sorted, if ever."""
    end, here = (after.end_lineno or 0, after.end_col_offset or 0), source.function_of(after)
    mentions = source.mentions.get(name, [])
    nearby = [node for node in mentions if source.function_of(node) is here]
    later = [_use_of(source, node) for node in nearby if (node.lineno, node.col_offset) >= end]
    telling = [use for use in later if use != "blind"]
    if telling:
        return telling[0] == "sorts"
    elsewhere = [_use_of(source, node) for node in mentions if node not in nearby]
    return bool(later) and all(use == "blind" for use in elsewhere)


def _use_of(source: Source, mention: ast.expr) -> str:
    """Whether the place where a list is mentioned sorts it, is blind to its order, or neither."""
    parent = source.parents[mention]
    match parent:
        case ast.Attribute(attr="sort"):
            call = source.parents[parent]
            return "sorts" if isinstance(call, ast.Call) and not may_tie(call) else "other"
        case ast.Attribute(attr="append" | "extend"):
            return "blind"
        case ast.Assign(value=ast.Call(func=ast.Name(id="sorted"), args=[first]) as call):
            return "sorts" if dotted(first) == dotted(mention) and not may_tie(call) else "other"
        case ast.Call(func=ast.Name(id=name)) if name in BLIND_BUILTINS:
            return "other" if may_tie(parent) else "blind"
        case ast.Compare(ops=[ast.In() | ast.NotIn()]) if mention is not parent.left:
            return "blind"
    return "other"


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
