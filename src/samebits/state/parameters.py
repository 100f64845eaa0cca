"""The parameters of a training under their names, by which gradients, moments and ties find them again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

from samebits.base.modules import inner_modules
from samebits.rng.packing import bytes_of


def own_parameters(objects: Iterable[tuple[str, object]]) -> Iterator[tuple[str, torch.Tensor]]:
    """Every name and parameter of modules and tensors; a parameter that is tied has several names."""
    for name, one in objects:
        if isinstance(one, torch.nn.Module):
            for way, module in inner_modules(one):
                for inner, parameter in module._parameters.items():
                    if parameter is not None:
                        yield f"{name}.{way}.{inner}" if way else f"{name}.{inner}", parameter
        elif isinstance(one, torch.Tensor) and one.is_leaf:
            yield name, one


def broken_ties(saved: Mapping[str, Any], live: Mapping[str, Any]) -> list[str]:
    """Return, in words, where parameters were one tensor and are not, or are one and had different bits.

    Args:
        saved: name → tensor; what was one tensor is one in memory, also after it was read from a file.
        live: name → parameter, under every name that it has.
    """
    names = [name for name, one in live.items() if isinstance(one, torch.nn.Parameter)]
    before = _first_names({name: _place(saved[name]) or name for name in names})
    after = _first_names({name: _place(live[name]) or id(live[name]) for name in names})
    lost = [f"{name} was tied to {before[name]}, is not" for name in names if after[name] != after[before[name]]]
    new = [name for name in names if before[name] != before[after[name]]]
    differing = [name for name in new if bytes_of(saved[name]) != bytes_of(saved[after[name]])]
    return lost + [f"{name} is tied to {after[name]}, was not" for name in differing]


def _first_names(keys: Mapping[str, object]) -> dict[str, str]:
    """Return, for each name, the first one with the same key."""
    first: dict[object, str] = {}
    return {name: first.setdefault(key, name) for name, key in keys.items()}


def _place(tensor: torch.Tensor) -> object:
    """Return where a plain tensor lies in memory, and how; None if it lies nowhere."""
    is_plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type != "meta"
    return (tensor.data_ptr(), tensor.shape, tensor.stride()) if is_plain and tensor.numel() else None
