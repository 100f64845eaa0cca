"""Walks through what users put into batches, losses and checkpoints: every leaf with its path."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import os
import re
from collections import OrderedDict, UserDict, UserList
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType

import torch

from samebits.base.modules import inner_modules
from samebits.base.run_numbers import without_run_number

MAX_DEPTH = 32
_PLAIN = (bool, int, float, complex, str, bytes, enum.Enum, torch.dtype, torch.device)
# Types whose objects are known by name, and hold nothing of a run.
BY_NAME = (FunctionType, BuiltinFunctionType, MethodType, ModuleType, type)
_CLOSED = (*_PLAIN, *BY_NAME, torch.Tensor)
# Types that objects in a batch or an output may refer to, but that are no part of it.
_NOT_DATA = (torch.nn.Module, torch.optim.Optimizer, torch.utils.data.DataLoader, torch.utils.data.Dataset)
# Attributes that every module has from torch.
_OF_MODULES = frozenset(vars(torch.nn.Module()))
# The folder of a key that is a path: `.best./home/me/logs/version_3/epoch=1.ckpt`.
_FOLDER = re.compile(r"\./(?:[^/]+/)*")
_DECIDING = ("__getstate__", "__reduce__", "__reduce_ex__")
Attributes = Callable[[object], Mapping[str, object]]


def leaves(tree: object, path: str = "", inside: Attributes = lambda _: {}) -> Iterator[tuple[str, object]]:
    """Pairs of path and leaf, in the order of the containers; a module's leaves are its parameters and buffers.

    No code of the user's is called: a `state_dict` may be a collective, and a `__getattr__` may make what it is asked
    for. `inside` gives attributes to walk of a module, and of an object that is no container. Each is entered once:
    what refers to itself has an end.

    >>> list(leaves({"x": [1, 2], "y": 3}))
    [('.x[0]', 1), ('.x[1]', 2), ('.y', 3)]
    """
    return _leaves(tree, path, inside, set(), 0)


def _leaves(tree: object, path: str, inside: Attributes, known: set[int], depth: int) -> Iterator[tuple[str, object]]:
    if depth > MAX_DEPTH:
        return
    if tree is None or isinstance(tree, _CLOSED):
        yield path, tree
        return
    if id(tree) in known:
        return
    if isinstance(tree, UserDict | UserList):
        tree = vars(tree).get("data", tree)
    parts: Iterable[tuple[str, object]]
    if isinstance(tree, dict):
        items = OrderedDict.items(tree) if isinstance(tree, OrderedDict) else dict.items(tree)
        parts = ((f".{_name(key, number)}", value) for number, (key, value) in enumerate(items))
    elif isinstance(tree, list | tuple):
        members = list.__iter__(tree) if isinstance(tree, list) else tuple.__iter__(tree)
        parts = ((f"[{index}]", value) for index, value in enumerate(members))
    elif isinstance(tree, torch.nn.Module):
        parts = _parts_of(tree, inside)
    elif attributes := attributes_of(tree) if dataclasses.is_dataclass(tree) else inside(tree):
        parts = ((f".{name}", value) for name, value in attributes.items())
    else:
        yield path, tree
        return
    known.add(id(tree))
    for name, value in parts:
        yield from _leaves(value, path + name, inside, known, depth + 1)


def _name(key: object, number: int) -> object:
    """Return a key, or `#` and its position where it is no name: printing a tensor would wait for it."""
    plain = isinstance(key, str | int | float | enum.Enum)
    return key if plain or (isinstance(key, tuple) and all(_name(part, -1) is part for part in key)) else f"#{number}"


def _parts_of(module: torch.nn.Module, inside: Attributes) -> Iterator[tuple[str, object]]:
    """The tensors of a module under the names of its `state_dict`, and the attributes that `inside` gives of it."""
    inner = [(f".{path}." if path else ".", part) for path, part in inner_modules(module)]
    for prefix, part in inner:
        unsaved = vars(part).get("_non_persistent_buffers_set", ())
        tensors = [*part._parameters.items(), *((name, t) for name, t in part._buffers.items() if name not in unsaved)]
        yield from ((f"{prefix}{name}", tensor) for name, tensor in tensors if tensor is not None)
    for prefix, part in inner:
        yield from ((f"{prefix}{name}", value) for name, value in inside(part).items())


def attributes_of(thing: object) -> dict[str, object]:
    """Return what an object holds in its dictionary and the slots that Python code gave it; its code is not called."""
    in_slots: dict[str, object] = {}
    for kind in reversed(type(thing).__mro__):
        for name, slot in vars(kind).items() if "__slots__" in vars(kind) else ():
            if isinstance(slot, MemberDescriptorType):
                try:
                    in_slots[name] = slot.__get__(thing)
                except AttributeError:
                    continue
    try:
        in_dict: dict[str, object] = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        in_dict = {}
    if isinstance(thing, torch.nn.Module):
        is_torchs = type(thing).__module__.startswith("torch.")
        in_dict = {n: v for n, v in in_dict.items() if n not in _OF_MODULES and not (is_torchs and n.startswith("_"))}
    return in_slots | in_dict


def data_inside(thing: object) -> dict[str, object]:
    """Return the attributes of an object in a batch, without modules, optimizers, loaders and datasets."""
    if isinstance(thing, _NOT_DATA):
        return {}
    return {name: value for name, value in attributes_of(thing).items() if not isinstance(value, _NOT_DATA)}


def saved(thing: object, prefix: str) -> Iterator[tuple[str, object]]:
    """The leaves of an object that a program saves.

    Where a key is the path of a file, its folder and its version number belong to one run, and are left out.
    """
    for path, leaf in leaves(thing, prefix, _pickled):
        yield without_run_number(_FOLDER.sub(".", path)) if os.sep in path else path, leaf


def _pickled(thing: object) -> dict[str, object]:
    """Return the attributes of an object that pickle saves; none where its class decides what is saved."""
    attributes = attributes_of(thing)
    if isinstance(thing, torch.optim.Optimizer):
        return {name: attributes[name] for name in ("state", "param_groups") if name in attributes}
    kind, usual = type(thing), torch.nn.Module if isinstance(thing, torch.nn.Module) else object
    decides = any(getattr(kind, name, None) is not getattr(usual, name, None) for name in _DECIDING)
    return {} if decides else attributes


def plain_digest(value: object) -> int | None:
    """Return the digest of a number, a text or the like; None for anything whose repr need not identify it."""
    if not isinstance(value, _PLAIN):
        return None
    text = f"{type(value).__name__}:{value.name if isinstance(value, enum.Enum) else repr(value)}"
    return int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
