"""How a list of tensors on accelerators is summed: small ones side by side in packs, the others one by one.

Every operation is a launch, and a launch takes longer than reading a megabyte. So what can be done for many tensors at
once is one operation: they are copied into one buffer, each from a row's beginning, the buffer is multiplied and its
rows are summed; large tensors are multiplied and summed where they lie. The sums of all rows stand in one list, which
is multiplied by the rows' keys and added up tensor by tensor at the end. `benchmarks/launches.py` counts.
"""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from threading import get_ident
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from samebits.bits.digest.blocks import as_bits, bits_dtype, bits_shape
from samebits.bits.digest.keys import ROW_WORDS, row_keys, rows_for, salt_of, uploaded, words_for
from samebits.bits.digest.parts import LOW_ADDRESS, holds_bits, is_plain, not_evidence
from samebits.bits.digest.sums import sum_rows, sum_words

# A copy of 4 MB takes as long as two launches; larger tensors are summed where they lie. A pack holds 16 MB.
_SMALL_ROWS = 1 << 8
_PACK_ROWS = 1 << 10
# Plans are made once for each list of shapes. A step of a network has some dozens at level op, each a few kilobytes.
_MOST_PLANS = 1024
_MOST_BYTES = 64 << 20
# Each has a buffer of 16 MB.
_MOST_SHELVES = 16
Sum: TypeAlias = "tuple[Sequence[int], Tensor]"
Signature: TypeAlias = "tuple[torch.dtype, torch.Size, tuple[int, ...]]"


def plans_of(tensors: Sequence[Tensor]) -> list[tuple[list[int], Plan]] | None:
    """How to sum these tensors, device by device: which of them, and their plan; None if one is made of several."""
    there: dict[torch.device, tuple[list[int], list[Signature]]] = {}
    try:
        for number, tensor in enumerate(tensors):
            if not is_plain(tensor.__class__, tensor.dtype, tensor.layout):
                return None
            numbers, signatures = there.setdefault(tensor.device, ([], []))
            numbers.append(number)
            signatures.append(signature(tensor))
        lowest = min(map(Tensor.data_ptr, tensors), default=LOW_ADDRESS)
    except (RuntimeError, TypeError):  # nested and uninitialized tensors have no shape, wrappers no address
        return None
    if lowest < LOW_ADDRESS:
        for tensor in tensors:
            if not holds_bits(tensor):
                raise not_evidence(tensor)
    return [(numbers, plans.plan(device, tuple(signatures))) for device, (numbers, signatures) in there.items()]


def signature(tensor: Tensor) -> Signature:
    """What distinguishes tensors of one device that are summed in different ways."""
    return tensor.dtype, tensor.shape, tensor.stride()


@dataclass(frozen=True)
class Plan:
    """How tensors of one device and one list of shapes are summed; their rows stand one after the other, packs first.

    Attributes:
        salts: of all of them, in order.
        positions: which of them have rows, in the order of these.
        packs: the small ones.
        large: the others, each with where its rows begin and end.
        keys: of all rows; 0 for a row before the first, which is never written.
        ends: the last row of each tensor, and the row before the first.
    """

    salts: list[int]
    positions: tuple[int, ...]
    packs: list[_Pack]
    large: list[tuple[int, int, int]]
    keys: Tensor
    ends: Tensor

    @property
    def nbytes(self) -> int:
        """On the device, and a kilobyte or so for every look at the buffer."""
        return self.keys.nbytes + self.ends.nbytes + 1024 * len(self.positions)

    def sums(self, tensors: Sequence[Tensor]) -> Tensor:
        """Of those that have rows, left where they lie."""
        rows = torch.empty_like(self.keys)
        for pack in self.packs:
            pack.sum_rows(tensors, rows)
        for position, start, end in self.large:
            sum_rows(tensors[position], rows[start:end])
        if len(rows) == len(self.ends):
            # One row each: its own sum, and its key is 1.
            return rows[1:]
        if len(self.ends) == 2:
            return (rows[1:] * self.keys[1:]).sum(0, keepdim=True)
        at_ends = rows.mul_(self.keys).cumsum_(0).index_select(0, self.ends)
        return at_ends[1:] - at_ends[:-1]


class _Buffer:
    """Where packs are filled, one after the other; `holder` is the last that was."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.holder: _Pack | None = None

    @cached_property
    def words(self) -> Tensor:
        with torch.inference_mode(False):
            return torch.empty(_PACK_ROWS * ROW_WORDS, dtype=torch.int32, device=self._device)


class _Pack:
    """Small tensors side by side in one buffer, each from a row's beginning.

    Args:
        spots: the tensors, in the order of their rows.
        start: the first of their rows in the plan's list.
        buffer: shared by all packs of a thread and stream.
    """

    def __init__(self, spots: list[_Spot], start: int, buffer: _Buffer) -> None:
        self._buffer, self._start = buffer, start
        self._rows = sum(spot.rows for spot in spots)
        self._together: dict[torch.dtype, tuple[list[Tensor], list[_Spot]]] = {}
        self._alone: list[tuple[Tensor, _Spot]] = []
        with torch.inference_mode(False):
            for spot, row in zip(spots, accumulate((spot.rows for spot in spots), initial=0), strict=False):
                place = spot.place(buffer.words[row * ROW_WORDS : (row + spot.rows) * ROW_WORDS])
                if spot.lies in ("in order", "flat"):
                    places, own = self._together.setdefault(place.dtype, ([], []))
                    places.append(place)
                    own.append(spot)
                else:
                    self._alone.append((place, spot))

    def sum_rows(self, tensors: Sequence[Tensor], into: Tensor) -> None:
        """Write the sums of its rows to their places in the plan's list."""
        words = self._buffer.words[: self._rows * ROW_WORDS]
        if self._buffer.holder is not self:
            # What another pack left between the tensors must not count.
            words.zero_()
            self._buffer.holder = self
        for places, spots in self._together.values():
            torch._foreach_copy_(places, [spot.source(tensors) for spot in spots])
        for place, spot in self._alone:
            place.copy_(spot.source(tensors))
        sum_words(words, into[self._start : self._start + self._rows])


class _Spot(NamedTuple):
    """One tensor of a plan.

    Attributes:
        lies: in memory: "in order"; "flat", in order, but with strides of its own where a dimension is 1 (1 × 1
            convolutions that are channels_last); or "otherwise". Unequal strides would have all tensors of a foreach
            copy copied one by one (foreach_tensor_copy_list_kernel_cuda_: _check_tensors_share_sizes_and_strides).
    """

    position: int
    dtype: torch.dtype
    shape: torch.Size
    rows: int
    lies: str

    def place(self, words: Tensor) -> Tensor:
        """Where in these words it goes."""
        shape = bits_shape(self.dtype, torch.Size((self.shape.numel(),)) if self.lies == "flat" else self.shape)
        return words.view(bits_dtype(self.dtype))[: torch.Size(shape).numel()].view(shape)

    def source(self, tensors: Sequence[Tensor]) -> Tensor:
        """Its numbers, in the shape of its place."""
        tensor = tensors[self.position]
        return as_bits(tensor.as_strided((tensor.numel(),), (1,)) if self.lies == "flat" else tensor)


def _how_it_lies(shape: torch.Size, strides: tuple[int, ...]) -> str:
    own = list(accumulate(reversed(shape[1:]), operator.mul, initial=1))[::-1] if shape else []
    if own == list(strides):
        return "in order"
    wide = [(mine, theirs) for size, mine, theirs in zip(shape, own, strides, strict=True) if size > 1]
    return "flat" if all(mine == theirs for mine, theirs in wide) else "otherwise"


class _Shelf:
    """The plans of one thread and stream, which share a buffer; those not used for longest go first."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._buffer = device, _Buffer(device)
        self._plans: OrderedDict[tuple[Signature, ...], Plan] = OrderedDict()
        self._bytes = 0

    def plan(self, signatures: tuple[Signature, ...]) -> Plan:
        plan = self._plans.get(signatures)
        if plan is not None:
            self._plans.move_to_end(signatures)
            return plan
        plan = self._plans[signatures] = _plan(signatures, self._device, self._buffer)
        self._bytes += plan.nbytes
        while len(self._plans) > 1 and (len(self._plans) > _MOST_PLANS or self._bytes > _MOST_BYTES):
            self._bytes -= self._plans.popitem(last=False)[1].nbytes
        return plan


class _Shelves:
    """By who works where: what runs at the same time must not share a buffer."""

    def __init__(self) -> None:
        self._shelves: OrderedDict[tuple[object, ...], _Shelf] = OrderedDict()
        # Autograd calls from a thread for each device.
        self._lock = threading.Lock()

    def plan(self, device: torch.device, signatures: tuple[Signature, ...]) -> Plan:
        whose = get_ident(), device, _stream_of(device)
        with self._lock:
            shelf = self._shelves.get(whose) or self._shelves.setdefault(whose, _Shelf(device))
            self._shelves.move_to_end(whose)
            if len(self._shelves) > _MOST_SHELVES:
                self._shelves.popitem(last=False)
            return shelf.plan(signatures)

    def clear(self) -> None:
        """As if nothing had been planned."""
        self._shelves.clear()


plans = _Shelves()


def _stream_of(device: torch.device) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream) if device.type == "cuda" else 0


def _plan(signatures: tuple[Signature, ...], device: torch.device, buffer: _Buffer) -> Plan:
    spots = []
    for position, (dtype, shape, strides) in enumerate(signatures):
        rows = rows_for(words_for(dtype, shape))
        if rows:
            spots.append(_Spot(position, dtype, shape, rows, _how_it_lies(shape, strides)))
    small = [spot for spot in spots if spot.rows <= _SMALL_ROWS and len(spots) > 1]
    large = [spot for spot in spots if spot not in small]
    # The row before the first belongs to no tensor.
    starts = list(accumulate((spot.rows for spot in small + large), initial=1))
    packs, start = [], 1
    for held in _groups(small):
        packs.append(_Pack(held, start, buffer))
        start += sum(spot.rows for spot in held)
    keys = torch.cat([torch.zeros(1, dtype=torch.int64), *(row_keys(spot.rows) for spot in small + large)])
    ends = torch.tensor([start - 1 for start in starts])
    both = uploaded(torch.cat([keys, ends]), device)
    return Plan(
        [salt_of(dtype, shape) for dtype, shape, _ in signatures],
        tuple(spot.position for spot in small + large),
        packs,
        [(spot.position, at, at + spot.rows) for spot, at in zip(large, starts[len(small) :], strict=False)],
        both[: len(keys)],
        both[len(keys) :],
    )


def _groups(spots: list[_Spot]) -> Iterator[list[_Spot]]:
    """As many as fit into the buffer, and again."""
    held: list[_Spot] = []
    rows = 0
    for spot in spots:
        if held and rows + spot.rows > _PACK_ROWS:
            yield held
            held, rows = [], 0
        held.append(spot)
        rows += spot.rows
    if held:
        yield held


def on_host(sums: list[Sum]) -> Iterator[tuple[int, int]]:
    """Each position with its sum; one copy brings all that is on one device."""
    there: dict[torch.device, list[tuple[Sequence[int], Tensor]]] = {}
    for positions, found in sums:
        there.setdefault(found.device, []).append((positions, found))
    for parts in there.values():
        values = torch.cat([found.view(-1) for _, found in parts]).tolist()
        yield from zip((position for positions, _ in parts for position in positions), values, strict=True)
