"""States of another number of ranks: what in them is valid for any rank, and what is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from samebits.base.errors import StateError
from samebits.rng.packing import bytes_of, leaves
from samebits.state.parts import ModulePart, Part


def joined(states: Sequence[Mapping[str, Any]], parts: Mapping[str, Part]) -> dict[str, Any]:
    """Join the states of all ranks: shared parts as the first rank has them, and the sections of all ranks.

    StateError if parameters or optimizers differ between ranks: then each rank has its share of a spread training.
    """
    if len(states) == 1:
        return dict(states[0])
    for name, part in parts.items():
        if not part.is_shared or name not in states[0]["parts"]:
            continue
        packed = [dict(leaves(state["parts"].get(name, {}))) for state in states]
        ways = list(packed[0])
        if isinstance(part, ModulePart):
            # Buffers may differ between ranks until DistributedDataParallel broadcasts those of the first.
            parameters = {f"state.{inner}" for inner, _ in part.one.named_parameters()}
            ways = [way for way in ways if way in parameters]
        differing = [way for way in ways if not same_bits_in_all(way, packed)]
        if differing:
            raise StateError(
                f"{name} is not the same on the {len(states)} ranks that saved: {differing[0]} differs",
                "a training that is spread over its ranks resumes with as many ranks; "
                "torch.distributed.checkpoint can spread it anew",
            )
    ranks = {name: section for state in states for name, section in state["ranks"].items()}
    return {**states[0], "ranks": ranks}


def section_for_any(state: Mapping[str, Any], keyed: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the section for a rank of another number of ranks: that of the first rank that saved.

    Parts that are `keyed` have the same position on every rank, whatever else is in their states. StateError if the
    state holds something that only as many ranks as saved it can continue from.
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
        if name not in keyed and not same_bits_in_all(name, [section["parts"] for section in sections]):
            raise StateError(
                f"the state of {name} differs between the {state['world_size']} ranks that saved, so that another "
                "number of ranks cannot continue from it",
                "resume with as many ranks, or keep it the same on all of them",
            )
    return first


def same_bits_in_all(name: str, states: Sequence[Mapping[str, object]]) -> bool:
    """Whether all packed states hold the same bits under a name."""
    first, *others = ({way: _bits(value) for way, value in leaves(state.get(name))} for state in states)
    return all(other == first for other in others)


def _bits(value: object) -> tuple[object, ...]:
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, bytes_of(value)
    return type(value), repr(value)
