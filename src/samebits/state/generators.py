"""The generators of a training: each gets back the state that was saved under its name, or starts anew."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from samebits.base.errors import StateError, StateWarning
from samebits.base.seeds import derive
from samebits.rng.handles import handle_of
from samebits.rng.packing import leaves
from samebits.rng.states import UnfitStateError, restoring
from samebits.state.parts import differences
from samebits.state.reranking import same_bits_in_all


def generator_restorers(
    saved: Mapping[str, object], live: Mapping[str, object], optional: tuple[str, ...]
) -> list[Callable[[], object]]:
    """Return functions that give each generator the state saved under its name; StateError if a state does not fit.

    Generators whose names begin with one of `optional` need no state: samebits' loaders start them with every sample.
    """
    before = {name for name in saved if name in live or not name.startswith(optional)}
    after = {name for name in live if name in saved or not name.startswith(optional)}
    if before != after:
        raise StateError(
            f"generators do not fit their states: {'; '.join(differences(before, after))}",
            "create all generators, on the same number of devices, before a state is loaded, also those that are "
            "otherwise created later",
        )
    functions = []
    for name in sorted(before):
        try:
            functions.append(restoring(live[name], saved[name]))
        except UnfitStateError as error:
            raise StateError(
                f"the generator {name} does not fit its state: {error}", "have the same generator"
            ) from error
    return functions


def generator_restarters(
    state: Mapping[str, Any], live: Mapping[str, object], rank: int, world_size: int
) -> list[Callable[[], object]]:
    """Return functions that start the generators whose states differed between the ranks that saved; rank 0 warns.

    Each starts from a seed of this rank's own, derived from the generator's state on the first rank.
    """
    saved = [state["ranks"][name]["generators"]["state"] for name in sorted(state["ranks"], key=int)]
    first = saved[0]
    anew = [name for name in first if name in live and not same_bits_in_all(name, saved)]
    if rank == 0:
        _warn(state, world_size, anew)
    return [_starting(first[name], live[name], "rank", rank, world_size, name) for name in anew]


def _starting(packed: object, generator: object, *words: str | int) -> Callable[[], object]:
    texts = (f"{way} {value.tolist() if isinstance(value, torch.Tensor) else value!r}" for way, value in leaves(packed))
    root = int.from_bytes(hashlib.blake2b("\n".join(texts).encode(), digest_size=16).digest(), "little")
    return lambda: handle_of(generator).start(derive(root, *words, bits=128))


def _warn(state: Mapping[str, Any], world_size: int, anew: list[str]) -> None:
    saved = state["world_size"]
    before = f"the state is of {saved} rank{'s' * (saved > 1)}, here {'is' if world_size == 1 else 'are'} {world_size}"
    if anew:
        consequence = (
            f"{', '.join(anew)} differed between ranks and start anew on each, so that what is drawn from "
            "them is not what the ranks that saved would have drawn"
        )
    elif len(state["ranks"]) == 1:
        consequence = (
            f"generators continue as those of rank {next(iter(state['ranks']))} did, so that all ranks draw the "
            "same from them; batches of samebits.data do not depend on them"
        )
    else:
        return
    warnings.warn(f"{before}: {consequence}", StateWarning, stacklevel=5)
