"""How a list of tensors on accelerators is summed: small ones side by side in packs, the others one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from threading import get_ident
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from samebits.recording.digest.keys import block_keys_on, even, salt_of, table, words_for
from samebits.recording.digest.parts import LOW_ADDRESS, holds_bits, is_plain, not_evidence
from samebits.recording.digest.sums import sum_of

# How many words a tensor may have to go into a pack, and a pack: a launch for all of them instead of some for each.
_SMALL_WORDS = 1 << 15
_PACK_WORDS = 1 << 20
Sum: TypeAlias = "tuple[Sequence[int], Tensor]"

_signature = attrgetter("__class__", "dtype", "shape", "layout", "device")


def plan_of(tensors: Sequence[Tensor]) -> Plan | None:
    """How to sum these tensors; None if one of them is made of several."""
    try:
        plan = _plan(tuple(map(_signature, tensors)), _whose_buffers())
        lowest = min(map(Tensor.data_ptr, tensors), default=LOW_ADDRESS)
    except (RuntimeError, TypeError):  # nested and uninitialized tensors have no shape, wrappers no address
        return None
    if plan and lowest < LOW_ADDRESS:
        for tensor in tensors:
            if not holds_bits(tensor):
                raise not_evidence(tensor)
    return plan


@dataclass(frozen=True)
class Plan:
    """How the tensors of one list of shapes are summed: the small ones in packs, the others one by one."""

    salts: list[int]
    packs: list[_Pack]
    single: list[int]

    def sums(self, tensors: Sequence[Tensor]) -> list[Sum]:
        packed: list[Sum] = [(pack.positions, pack.sums(tensors)) for pack in self.packs]
        return packed + [((position,), sum_of(tensors[position])) for position in self.single]


@dataclass(frozen=True)
class _Pack:
    """Small tensors side by side in one buffer, with zeros between them, so that a handful of operations sums them all.

    Attributes:
        positions: which of the plan's tensors.
        places: where in `words` each of them goes.
        words: the buffer; its gaps are never written.
        folded: scratch of the same size.
        keys: what each word is multiplied by, 0 in the gaps.
        gaps: indices of a gap before each tensor and after the last.
    """

    positions: tuple[int, ...]
    places: list[Tensor]
    words: Tensor
    folded: Tensor
    keys: Tensor
    gaps: Tensor

    def sums(self, tensors: Sequence[Tensor]) -> Tensor:
        torch._foreach_copy_(self.places, [tensors[position] for position in self.positions])
        torch.bitwise_right_shift(self.words[:-1], 32, out=self.folded[1:])
        running = self.folded.bitwise_xor_(self.words).mul_(self.keys).cumsum_(0)
        at_gaps = running.index_select(0, self.gaps)
        return at_gaps[1:] - at_gaps[:-1]


class _Spot(NamedTuple):
    position: int
    dtype: torch.dtype
    shape: torch.Size
    words: int


def _whose_buffers() -> tuple[int, int]:
    """What runs at the same time must not share a pack: threads, and streams of a GPU that is in use."""
    cuda: Any = torch.cuda
    return get_ident(), cuda.current_stream().cuda_stream if cuda.is_initialized() else 0


@lru_cache(maxsize=64)
def _plan(signatures: tuple[tuple[Any, ...], ...], whose: tuple[int, int]) -> Plan | None:
    if not all(is_plain(kind, dtype, layout) for kind, dtype, _, layout, _ in signatures):
        return None
    salts, single = [], []
    small: dict[torch.device, list[_Spot]] = {}
    for position, (_, dtype, shape, _, device) in enumerate(signatures):
        salts.append(salt_of(dtype, shape))
        spot = _Spot(position, dtype, shape, words_for(dtype, shape))
        if spot.words > _SMALL_WORDS:
            single.append(position)
        elif spot.words:
            small.setdefault(device, []).append(spot)
    single += [spots[0].position for spots in small.values() if len(spots) == 1]
    packs = [pack for device, spots in small.items() if len(spots) > 1 for pack in _packs(spots, device)]
    return Plan(salts, packs, single)


def _packs(spots: list[_Spot], device: torch.device) -> Iterator[_Pack]:
    while spots:
        starts: list[int] = []
        end = 2
        for spot in spots:
            if starts and end + spot.words > _PACK_WORDS:
                break
            starts.append(end)
            end = even(end + spot.words + 1)
        yield _pack(spots[: len(starts)], starts, end, device)
        spots = spots[len(starts) :]


def _pack(spots: list[_Spot], starts: list[int], end: int, device: torch.device) -> _Pack:
    with torch.inference_mode(False):
        first_keys = table(device) * block_keys_on(device, 0)
        words, folded, keys = (torch.zeros(end, dtype=torch.int64, device=device) for _ in range(3))
        places = []
        for spot, start in zip(spots, starts, strict=True):
            keys[start : start + spot.words] = first_keys[: spot.words]
            place = words[start : start + even(spot.words)].view(spot.dtype)
            places.append(place[: spot.shape.numel()].view(spot.shape))
        gaps = torch.tensor([*(start - 1 for start in starts), end - 1], device=device)
    return _Pack(tuple(spot.position for spot in spots), places, words, folded, keys, gaps)


def on_host(sums: list[Sum]) -> Iterator[tuple[int, int]]:
    """Each position with its sum; one copy brings all that is on one device."""
    there: dict[torch.device, list[tuple[Sequence[int], Tensor]]] = {}
    for positions, found in sums:
        there.setdefault(found.device, []).append((positions, found))
    for parts in there.values():
        values = torch.cat([found.view(-1) for _, found in parts]).tolist()
        yield from zip((position for positions, _ in parts for position in positions), values, strict=True)
