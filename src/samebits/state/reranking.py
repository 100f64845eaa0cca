"""A state of another number of ranks: what of it holds for any rank, and what has to begin anew."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from samebits.base.errors import StateError, StateWarning
from samebits.base.seeds import derive
from samebits.rng.handles import handle_of
from samebits.rng.packing import bytes_of, leaves
from samebits.state.parts import ModulePart, Part


def joined(states: Sequence[Mapping[str, Any]], parts: Mapping[str, Part]) -> dict[str, Any]:
    """The states of all ranks as one: what they share as the first has it, and of each what is its own.

    Raises:
        StateError: ranks have different parameters or optimizers, each a share of one that is spread over all.
    """
    for name, part in parts.items():
        differing = [way for way in _shared_ways(name, part, states[0]) if not _same_everywhere(states, name, way)]
        if differing:
            raise StateError(
                f"{name} is not the same on the {len(states)} ranks that saved: {differing[0]} differs",
                "a training that is spread over its ranks resumes with as many ranks; "
                "torch.distributed.checkpoint can spread it anew",
            )
    ranks = {name: section for state in states for name, section in state["ranks"].items()}
    return {**states[0], "ranks": ranks}


def _shared_ways(name: str, part: Part, state: Mapping[str, Any]) -> list[str]:
    if not part.is_shared or name not in state["parts"]:
        return []
    ways = [way for way, _ in leaves(state["parts"][name])]
    if isinstance(part, ModulePart):
        # Buffers are each rank's own until DistributedDataParallel hands out those of the first.
        own = {f"state.{inner}" for inner, _ in part.one.named_parameters()}
        return [way for way in ways if way in own]
    return ways


def _same_everywhere(states: Sequence[Mapping[str, Any]], name: str, way: str) -> bool:
    found = [dict(leaves(state["parts"].get(name, {}))).get(way) for state in states]
    return all(same_bits(found[0], one) for one in found[1:])


def same_bits(one: object, other: object) -> bool:
    """Whether two packed states are the same."""
    before, after = dict(leaves(one)), dict(leaves(other))
    return before.keys() == after.keys() and all(_same_leaf(before[way], after[way]) for way in before)


def _same_leaf(one: object, other: object) -> bool:
    if not (isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)):
        return type(one) is type(other) and repr(one) == repr(other)
    return one.dtype == other.dtype and one.shape == other.shape and bytes_of(one) == bytes_of(other)


def section_for_any(state: Mapping[str, Any], keyed: tuple[str, ...]) -> Mapping[str, Any]:
    """What a rank that did not save has of its own: that of the first rank that did.

    Args:
        state: of another number of ranks.
        keyed: parts that stand at the same place on every rank, whatever else is in their states.

    Raises:
        StateError: it holds what belongs to as many ranks as saved it.
    """
    sections = [state["ranks"][name] for name in sorted(state["ranks"], key=int)]
    if any(section["gradients"]["state"] for section in sections):
        raise StateError(
            f"the state holds gradients of {state['world_size']} ranks that wait for a step, which another number of "
            "ranks cannot go on with",
            "save after zero_grad(), or with gradients=False",
        )
    first: Mapping[str, Any] = sections[0]
    for name, part in first["parts"].items():
        if name not in keyed and not all(same_bits(part, section["parts"].get(name)) for section in sections[1:]):
            raise StateError(
                f"the state of {name} differs between the {state['world_size']} ranks that saved, so that another "
                "number of ranks cannot go on with it",
                "resume with as many ranks, or keep it the same on all of them",
            )
    return first


def differing_generators(state: Mapping[str, Any]) -> list[str]:
    """The generators that the ranks in a state had in different states."""
    sections = [section["generators"]["state"] for section in state["ranks"].values()]
    return [
        name
        for name, packed in sections[0].items()
        if not all(same_bits(packed, section.get(name)) for section in sections[1:])
    ]


def starting(name: str, packed: object, generator: object, rank: int, world_size: int) -> Callable[[], object]:
    """What starts a generator from a seed of its own, which follows from the state that the first rank had it in."""
    texts = (f"{way} {value.tolist() if isinstance(value, torch.Tensor) else value!r}" for way, value in leaves(packed))
    root = int.from_bytes(hashlib.blake2b("\n".join(texts).encode(), digest_size=16).digest(), "little")
    word = derive(root, "rank", rank, world_size, name, bits=128)
    return lambda: handle_of(generator).start(word)


def warn_of_ranks(state: Mapping[str, Any], world_size: int, anew: Sequence[str]) -> None:
    """Say what a state of another number of ranks means for what is drawn."""
    before = f"the state is of {_ranks(state['world_size'])}, here {'is' if world_size == 1 else 'are'} {world_size}"
    if anew:
        warnings.warn(
            f"{before}: {', '.join(anew)} differed between ranks and start anew on each, so that what is drawn from "
            "them is not what the ranks that saved would have drawn",
            StateWarning,
            stacklevel=4,
        )
    elif len(state["ranks"]) == 1:
        warnings.warn(
            f"{before}: generators go on as those of rank {next(iter(state['ranks']))} did, so that all ranks draw the "
            "same from them; batches of samebits.data do not depend on them",
            StateWarning,
            stacklevel=4,
        )


def _ranks(number: int) -> str:
    return "1 rank" if number == 1 else f"{number} ranks"
