"""A state of another number of ranks: what of it holds for any rank, and what does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from samebits.base.errors import StateError
from samebits.rng.packing import bytes_of, leaves
from samebits.state.parts import ModulePart, Part


def joined(states: Sequence[Mapping[str, Any]], parts: Mapping[str, Part]) -> dict[str, Any]:
    """The states of all ranks as one: what they share as the first has it, and of each what is its own.

    StateError where ranks have different parameters or optimizers, each a share of one that is spread over all.
    """
    if len(states) == 1:
        return dict(states[0])
    for name, part in parts.items():
        if not part.is_shared or name not in states[0]["parts"]:
            continue
        found = [dict(leaves(state["parts"].get(name, {}))) for state in states]
        ways = list(found[0])
        if isinstance(part, ModulePart):
            # Buffers are each rank's own until DistributedDataParallel hands out those of the first.
            own = {f"state.{inner}" for inner, _ in part.one.named_parameters()}
            ways = [way for way in ways if way in own]
        differing = [way for way in ways if not is_alike(way, found)]
        if differing:
            raise StateError(
                f"{name} is not the same on the {len(states)} ranks that saved: {differing[0]} differs",
                "a training that is spread over its ranks resumes with as many ranks; "
                "torch.distributed.checkpoint can spread it anew",
            )
    ranks = {name: section for state in states for name, section in state["ranks"].items()}
    return {**states[0], "ranks": ranks}


def section_for_any(state: Mapping[str, Any], keyed: tuple[str, ...]) -> Mapping[str, Any]:
    """What a rank that did not save has of its own: that of the first rank that did.

    Parts that are `keyed` stand at the same place on every rank, whatever else is in their states. StateError where
    the state holds what belongs to as many ranks as saved it.
    """
    sections = [state["ranks"][name] for name in sorted(state["ranks"], key=int)]
    if any(section["gradients"]["state"] for section in sections):
        raise StateError(
            f"the state holds gradients of {state['world_size']} ranks that wait for a step, which another number of "
            "ranks cannot continue from",
            "save after zero_grad(), or with gradients=False",
        )
    first: Mapping[str, Any] = sections[0]
    for name in first["parts"]:
        if name not in keyed and not is_alike(name, [section["parts"] for section in sections]):
            raise StateError(
                f"the state of {name} differs between the {state['world_size']} ranks that saved, so that another "
                "number of ranks cannot continue from it",
                "resume with as many ranks, or keep it the same on all of them",
            )
    return first


def is_alike(name: str, states: Sequence[Mapping[str, object]]) -> bool:
    """Whether what packed states hold under a name has the same bits in all of them."""
    first, *others = ({way: _bits(value) for way, value in leaves(state.get(name))} for state in states)
    return all(other == first for other in others)


def _bits(value: object) -> tuple[object, ...]:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, bytes_of(value)
    return type(value), repr(value)
