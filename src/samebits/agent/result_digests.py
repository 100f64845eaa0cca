"""The outcome of a call: digests of what it returned, and of the tensors that it could have written to."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch

from samebits.agent.tensors import as_tensor, unwrapped
from samebits.agent.trees import leaves, plain_digest
from samebits.bits.digest import digests, is_evidence
from samebits.bits.digest.unseen import unobserved

Digests = dict[str, int]
_NOTHING = object()
# So many values show a sign, a scale or a missing factor; they are not for comparing.
MOST_VALUES = 4
# So many digits distinguish every number of these types from its neighbours.
DIGITS = {torch.float64: 17, torch.complex128: 17}


def digests_of_result(result: object) -> Digests:
    """Return digests of tensors, arrays, numbers and texts in a result, by path; empty if nothing can be compared."""
    return {} if result is None else _digested(_opened(result, "what was returned"))


def digests_of_reachable(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> Digests:
    """Return digests of tensors, arrays and modules that a call reaches: by arguments, closure, globals and `self`.

    Numbers are left out: a counter of calls is no result.
    """
    attributes = getattr(getattr(function, "__self__", None), "__dict__", {})
    outer = [*((f"self.{name}", value) for name, value in attributes.items()), *_outer_variables(function)]
    reach = [(f"argument {name}", value) for name, value in (*enumerate(args), *kwargs.items())]
    reach += [
        (name, value) for name, value in outer if isinstance(value, torch.nn.Module) or as_tensor(value) is not None
    ]
    reached = [(path, leaf) for name, value in reach for path, leaf in leaves(value, name)]
    return _digested((path, leaf) for path, leaf in reached if as_tensor(leaf) is not None)


def first_difference(a: Mapping[str, object], b: Mapping[str, object]) -> str | None:
    """Return the first path whose digests differ, or that only one has; None if there is none."""
    return next((path for path in (*a, *b) if a.get(path) != b.get(path)), None)


def shown_at(result: object, path: str) -> str:
    """Return in words the value at one path of `digests_of_result`; empty where it cannot be shown.

    >>> shown_at({"a": torch.ones(2, 3)}, "what was returned.a")
    'float32 of shape (2, 3), 1, 1, 1, 1 …'
    """
    # Of the members of a set only digests are known.
    named = () if path.endswith("}") else _opened(result, "what was returned")
    leaf = next((leaf for name, leaf in named if name == path), _NOTHING)
    tensor = as_tensor(leaf)
    if tensor is not None:
        return _shown(leaf, unwrapped(tensor))
    return repr(leaf) if leaf is None or isinstance(leaf, bool | int | float | complex) else ""


def _shown(leaf: Any, tensor: torch.Tensor) -> str:
    dtype, tensor_dtype = (str(array.dtype).removeprefix("torch.") for array in (leaf, tensor))
    words = f"{dtype} of shape {tuple(leaf.shape)}"
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout is torch.strided
    # For NumPy dtypes that torch lacks, the tensor holds bytes and no numbers.
    if not is_plain or tensor.is_quantized or tensor.is_nested or dtype != tensor_dtype or not tensor.numel():
        return words
    try:
        with unobserved():
            first = tensor.detach().flatten()[:MOST_VALUES].tolist()
    except RuntimeError:
        # torch does not list the numbers of types smaller than a byte.
        return words
    digits = DIGITS.get(tensor.dtype, 9)
    values = ", ".join(f"{value:.{digits}g}" if isinstance(value, float | complex) else str(value) for value in first)
    return f"{words}, {values}{' …' if tensor.numel() > len(first) else ''}"


def _outer_variables(function: Callable[..., object]) -> list[tuple[str, object]]:
    plain = inspect.unwrap(getattr(function, "__func__", function))
    try:
        variables = inspect.getclosurevars(plain)
    except (TypeError, ValueError):
        return []
    # Up to Python 3.12, `getclosurevars` takes names of attributes for names of globals.
    read = {instr.argval for instr in dis.get_instructions(plain) if instr.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    outer = {name: value for name, value in variables.globals.items() if name in read} | dict(variables.nonlocals)
    return sorted(outer.items(), key=itemgetter(0))


def _opened(tree: object, path: str) -> Iterator[tuple[str, object]]:
    """Leaves of containers, and the tensors in other objects, which may hold anything else, too."""
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


def _digested(named: Iterator[tuple[str, object]]) -> Digests:
    tensors: dict[str, torch.Tensor] = {}
    plain: Digests = {}
    for path, leaf in named:
        tensor = as_tensor(leaf)
        if tensor is None:
            plain[path] = 0 if leaf is None else plain_digest(leaf) or 0
        elif is_evidence(tensor := unwrapped(tensor)):
            tensors[path] = tensor
    return plain | dict(zip(tensors, digests(list(tensors.values())), strict=True))
