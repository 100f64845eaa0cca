"""Walking what users put into batches, losses and checkpoints: every leaf with its path."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType

import torch

from samebits.base.modules import inner_modules
from samebits.base.versions import without_version

MAX_DEPTH = 32
_PLAIN = (bool, int, float, complex, str, bytes, enum.Enum, torch.dtype, torch.device)
# What is known by its name, and holds nothing of a run.
BY_NAME = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type)
_CLOSED = (*_PLAIN, *BY_NAME, torch.Tensor)
# What objects in a batch or an output refer to, and is no part of it.
_NOT_DATA = (torch.nn.Module, torch.optim.Optimizer, torch.utils.data.DataLoader, torch.utils.data.Dataset)
# What every module has of torch's own.
_OF_MODULES = frozenset(vars(torch.nn.Module()))
# A key that begins with a separator: `.best./home/me/logs/version_3/epoch=1.ckpt`.
_FOLDER = re.compile(r"\./(?:[^/]+/)*")
_DECIDING = ("__getstate__", "__reduce__", "__reduce_ex__")
Attributes = Callable[[object], Mapping[str, object]]


def leaves(tree: object, path: str = "", inside: Attributes = lambda _: {}) -> Iterator[tuple[str, object]]:
    """Pairs of path and leaf, in the order of the containers; modules count by their parameters and buffers.

    Nothing of the user's is called: a `state_dict` may be a collective, and a `__getattr__` may make what it is asked
    for. What is `inside` an object that is no container, and in a module besides its tensors, is looked into once.

    >>> list(leaves({"x": [1, 2], "y": 3}))
    [('.x[0]', 1), ('.x[1]', 2), ('.y', 3)]
    """
    return _leaves(tree, path, inside, set(), 0)


def _leaves(tree: object, path: str, inside: Attributes, known: set[int], depth: int) -> Iterator[tuple[str, object]]:
    if depth > MAX_DEPTH:
        return
    parts: Iterable[tuple[str, object]] = ()
    if isinstance(tree, Mapping):
        parts = ((f".{_name(key, number)}", value) for number, (key, value) in enumerate(tree.items()))
    elif isinstance(tree, list | tuple):
        parts = ((f"[{index}]", value) for index, value in enumerate(tree))
    elif tree is None or isinstance(tree, _CLOSED):
        yield path, tree
    elif id(tree) in known:
        return
    elif isinstance(tree, torch.nn.Module):
        known.add(id(tree))
        parts = _parts_of(tree, inside)
    elif attributes := attributes_of(tree) if dataclasses.is_dataclass(tree) else inside(tree):
        known.add(id(tree))
        parts = ((f".{name}", value) for name, value in attributes.items())
    else:
        yield path, tree
    for name, value in parts:
        yield from _leaves(value, path + name, inside, known, depth + 1)


def _name(key: object, number: int) -> object:
    """A key as text; by its place where it is no name: printing a tensor would wait for it."""
    plain = isinstance(key, str | int | float | enum.Enum)
    return key if plain or (isinstance(key, tuple) and all(_name(one, -1) is one for one in key)) else f"#{number}"


def _parts_of(module: torch.nn.Module, inside: Attributes) -> Iterator[tuple[str, object]]:
    """The tensors of a module under the names of its `state_dict`, and what else is to be seen of it."""
    inner = [(f".{path}." if path else ".", one) for path, one in inner_modules(module)]
    for prefix, one in inner:
        unsaved = vars(one).get("_non_persistent_buffers_set", ())
        tensors = [*one._parameters.items(), *((name, t) for name, t in one._buffers.items() if name not in unsaved)]
        yield from ((f"{prefix}{name}", tensor) for name, tensor in tensors if tensor is not None)
    for prefix, one in inner:
        yield from ((f"{prefix}{name}", value) for name, value in inside(one).items())


def attributes_of(thing: object) -> dict[str, object]:
    """What an object holds in its dictionary and its slots; nothing of it is called."""
    found: dict[str, object] = {}
    for kind in reversed(type(thing).__mro__):
        for name, slot in vars(kind).items():
            if isinstance(slot, MemberDescriptorType) and kind.__module__ != "builtins":
                try:
                    found[name] = slot.__get__(thing)
                except AttributeError:
                    continue
    try:
        own: dict[str, object] = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        own = {}
    if isinstance(thing, torch.nn.Module):
        is_torchs = type(thing).__module__.startswith("torch.")
        own = {n: v for n, v in own.items() if n not in _OF_MODULES and not (is_torchs and n.startswith("_"))}
    return found | own


def data_inside(thing: object) -> dict[str, object]:
    """What an object in a batch holds, without what it only refers to."""
    if isinstance(thing, _NOT_DATA):
        return {}
    return {name: value for name, value in attributes_of(thing).items() if not isinstance(value, _NOT_DATA)}


def saved(thing: object, prefix: str) -> Iterator[tuple[str, object]]:
    """The leaves of what a program saves.

    Where a key is the path of a file, its folder and the number of its version are those of one run, and left out.
    """
    for own, leaf in leaves(thing, prefix, _pickled):
        yield without_version(_FOLDER.sub(".", own)) if os.sep in own else own, leaf


def _pickled(thing: object) -> dict[str, object]:
    """What pickle takes of an object; nothing where its class decides for itself."""
    attributes = attributes_of(thing)
    if isinstance(thing, torch.optim.Optimizer):
        return {name: attributes[name] for name in ("state", "param_groups") if name in attributes}
    kind, usual = type(thing), torch.nn.Module if isinstance(thing, torch.nn.Module) else object
    decides = any(getattr(kind, name, None) is not getattr(usual, name, None) for name in _DECIDING)
    return {} if decides else attributes


def plain_digest(value: object) -> int | None:
    """The digest of a number or a text; None for anything whose repr need not say what it is."""
    if not isinstance(value, _PLAIN):
        return None
    text = f"{type(value).__name__}:{value.name if isinstance(value, enum.Enum) else repr(value)}"
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
