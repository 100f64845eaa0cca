"""What a call left behind: digests of what it returned, and of tensors that it could have written to."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch

from samebits.agent.listening import Named, as_tensor, unwrapped
from samebits.agent.trees import leaves, plain_digest
from samebits.bits.digest import digests, is_evidence

Digests = dict[str, int]


def digests_of_result(result: object) -> Digests:
    """Tensors, arrays, numbers and texts in what a function returned, by path; empty where nothing can be compared."""
    return {} if result is None else _digested(_opened(result, "what was returned"))


def digests_of_reach(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> Digests:
    """Tensors, arrays and modules among the arguments, in the function's closure, in its globals, and in its `self`.

    Numbers are left out: a counter of calls is no result.
    """
    owned = getattr(function, "__self__", None)
    reach = [(f"argument {number}", value) for number, value in enumerate(args)]
    reach += [(f"argument {name}", value) for name, value in kwargs.items()]
    reach += [(f"self.{name}", value) for name, value in getattr(owned, "__dict__", {}).items() if _holds_bits(value)]
    reach += [(name, value) for name, value in _outer_variables(function) if _holds_bits(value)]
    found = [(path, leaf) for name, value in reach for path, leaf in leaves(value, name)]
    return _digested((path, leaf) for path, leaf in found if as_tensor(leaf) is not None)


def first_difference(a: Digests, b: Digests) -> str | None:
    """The first path that is not the same in both; None if all are."""
    return next((path for path in (*a, *b) if a.get(path) != b.get(path)), None)


def _outer_variables(function: Callable[..., object]) -> list[Named]:
    try:
        variables = inspect.getclosurevars(inspect.unwrap(getattr(function, "__func__", function)))
    except (TypeError, ValueError):
        return []
    return sorted([*variables.nonlocals.items(), *variables.globals.items()])


def _holds_bits(value: object) -> bool:
    return isinstance(value, torch.nn.Module) or as_tensor(value) is not None


def _opened(tree: object, path: str) -> Iterator[Named]:
    """Leaves of containers; of other objects tensors only, since they may hold anything else."""
    for name, leaf in leaves(tree, path):
        if as_tensor(leaf) is not None or leaf is None or plain_digest(leaf) is not None:
            yield name, leaf
        elif isinstance(leaf, set | frozenset):
            # Two equal sets may hold their members in different order.
            members = sorted(filter(None, map(plain_digest, leaf)))
            yield from ((f"{name}{{{number}}}", digest) for number, digest in enumerate(members))
        elif not callable(leaf):
            inner = leaves(getattr(leaf, "__dict__", {}), name)
            yield from ((path, tensor) for path, tensor in inner if as_tensor(tensor) is not None)


def _digested(named: Iterator[Named]) -> Digests:
    tensors: dict[str, torch.Tensor] = {}
    found: Digests = {}
    for path, leaf in named:
        tensor = as_tensor(leaf)
        if tensor is None:
            found[path] = 0 if leaf is None else plain_digest(leaf) or 0
        elif is_evidence(tensor := unwrapped(tensor)):
            tensors[path] = tensor
    return found | dict(zip(tensors, digests(list(tensors.values())), strict=True))
