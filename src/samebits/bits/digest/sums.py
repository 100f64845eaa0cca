"""The keyed sums of tensors on accelerators: small tensors packed side by side, large ones in place.

Every operation is a launch, and a launch takes longer than reading a megabyte. So one operation serves many tensors
where possible. Small tensors are copied side by side, each from the start of a row, then multiplied by the keys, and
all rows summed together. Large tensors are multiplied and summed in place. The sums of all rows form one list, which is
multiplied by the rows' keys and added up per tensor at the end. `benchmarks/launches.py` counts the launches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from samebits.accelerators.devices import current_stream
from samebits.bits.digest.blocks import as_numbers, copy_elements, kind_of_numbers
from samebits.bits.digest.keys import ROW_BYTES, ROW_WORDS, WORD_BYTES, row_keys, table, uploaded

# A copy of 4 MB takes as long as two launches; larger tensors are summed in place.
_SMALL_ROWS = 1 << 8
# One launch works on 16 MB, whose products take 32 MB. No more is allocated at a time, however large the tensors are,
# and the products are still in the cache of a large device when they are added up.
SLAB_ROWS = 1 << 10

# Positions of tensors, and their sums, still on the device.
Sum: TypeAlias = "tuple[Sequence[int], Tensor]"
T = TypeVar("T")


def sums_of(tensors: Sequence[Tensor]) -> Sum:
    """Return the sums of the plain tensors of one device, except for those without elements."""
    device = tensors[0].device
    plan = plan_of(tuple((tensor.dtype, tensor.nbytes) for tensor in tensors), device, current_stream(device))
    rows = torch.empty_like(plan.keys)
    for pack, start, end in plan.packs:
        parts = chain.from_iterable((as_numbers(tensors[position]), zeros) for position, zeros in pack)
        sum_words(torch._C._nn.flatten_dense_tensors(list(parts)).view(torch.int32), plan.table, rows[start:end])
    for position, start, end in plan.large:
        sum_rows(tensors[position], plan.table, rows[start:end])
    return plan.order, _by_tensor(rows, plan.keys, plan.ends)


class Plan(NamedTuple):
    """The way to sum tensors of one device and one list of dtypes and sizes; their rows follow one another.

    Attributes:
        order: the positions of the tensors that have rows, in the order of their rows.
        packs: small tensors of one kind, each with zeros to fill its last row; and the first and end of their rows.
        large: each other tensor, with the first and end of its rows.
        keys: the keys of all rows, after a 0 for a row before the first, which is never written.
        ends: the row before the first, and the last row of each tensor.
        table: the keys of the words within a row.
    """

    order: list[int]
    packs: list[tuple[list[tuple[int, Tensor]], int, int]]
    large: list[tuple[int, int, int]]
    keys: Tensor
    ends: Tensor
    table: Tensor


# Cached for each stream that uploads: on another the numbers might not be there yet. A step of a network has dozens.
@lru_cache(maxsize=512)
def plan_of(signature: tuple[tuple[torch.dtype, int], ...], device: torch.device, stream: object) -> Plan:
    """Return the plan for these dtypes and sizes, made once for each stream of a device."""
    counts = [-(-size // ROW_BYTES) for _, size in signature]
    groups = _groups([dtype for dtype, _ in signature], counts)
    order = [*chain.from_iterable(groups)]
    ends = dict(zip(order, accumulate(counts[position] for position in order), strict=True))
    packs, large = [], []
    for group in groups:
        start, end = ends[group[0]] - counts[group[0]] + 1, ends[group[-1]] + 1
        if len(order) == 1 or counts[group[0]] > _SMALL_ROWS:
            large.append((group[0], start, end))
        else:
            kind = kind_of_numbers(signature[group[0]][0])
            zeros = _zeros(kind, device, stream)
            rests = [-signature[position][1] % ROW_BYTES // kind.itemsize for position in group]
            packs.append(([(position, zeros[:rest]) for position, rest in zip(group, rests, strict=True)], start, end))
    keys = torch.cat([torch.zeros(1, dtype=torch.int64), *(row_keys(counts[position]) for position in order)])
    both = uploaded(torch.cat([keys, torch.tensor([0, *ends.values()])]), device)
    return Plan(order, packs, large, both[: len(keys)], both[len(keys) :], table(device, stream))


def _groups(dtypes: Sequence[torch.dtype], counts: list[int]) -> list[list[int]]:
    """Group tensors: small ones of one kind of numbers up to a full pack, large ones alone, empty ones nowhere."""
    groups: list[list[int]] = []
    # Kind → the pack that is being filled, and its number of rows.
    packs: dict[torch.dtype, list[int]] = {}
    rows: dict[torch.dtype, int] = {}
    for position, (dtype, count) in enumerate(zip(dtypes, counts, strict=True)):
        kind = kind_of_numbers(dtype)
        if count > _SMALL_ROWS:
            groups.append([position])
        elif count:
            if kind not in packs or rows[kind] + count > SLAB_ROWS:
                packs[kind], rows[kind] = [], 0
                groups.append(packs[kind])
            packs[kind].append(position)
            rows[kind] += count
    return groups


@lru_cache(maxsize=64)
def _zeros(kind: torch.dtype, device: torch.device, stream: object) -> Tensor:
    """Return a row of zeros."""
    with torch.inference_mode(False):
        return torch.zeros(ROW_BYTES // kind.itemsize, dtype=kind, device=device)


def _by_tensor(rows: Tensor, keys: Tensor, ends: Tensor) -> Tensor:
    if len(rows) == len(ends):
        # One row each: its sum is the tensor's, because the key of the first row is 1.
        return rows[1:]
    if len(ends) == 2:
        return (rows[1:] * keys[1:]).sum(0, keepdim=True)
    at_ends = rows.mul_(keys).cumsum_(0).index_select(0, ends)
    return at_ends[1:] - at_ends[:-1]


def sum_rows(tensor: Tensor, keys: Tensor, into: Tensor) -> None:
    """Write the sum of each of the tensor's rows to `into`, without the rows' own keys."""
    start = 0
    for words in _slabs(tensor):
        rows = -(-words.numel() // ROW_WORDS)
        sum_words(words, keys, into[start : start + rows])
        start += rows


def sum_words(words: Tensor, keys: Tensor, into: Tensor) -> None:
    """Write the sum of each row of contiguous words to `into`, without the rows' own keys."""
    whole, rest = divmod(words.numel(), ROW_WORDS)
    if whole:
        torch.sum(words[: whole * ROW_WORDS].view(whole, ROW_WORDS) * keys, 1, out=into[:whole])
    if rest:
        torch.sum(words[whole * ROW_WORDS :] * keys[:rest], 0, keepdim=True, out=into[whole:])


def _slabs(tensor: Tensor) -> Iterator[Tensor]:
    """The row-major bytes as words: the tensor's own memory where possible, else copies."""
    offset = tensor.storage_offset() * tensor.itemsize
    aligned = (offset | tensor.nbytes | tensor.data_ptr()) % WORD_BYTES == 0
    if aligned and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        # Not view(-1), which up to torch 2.6 keeps the odd stride of a single element.
        words = tensor.as_strided((tensor.numel(),), (1,)).view(torch.int32)
        yield from torch.split(words, SLAB_ROWS * ROW_WORDS)
        return
    most = SLAB_ROWS * ROW_BYTES // tensor.itemsize
    for start in range(0, tensor.numel(), most):
        yield _copied(tensor, start, min(most, tensor.numel() - start))


def _copied(tensor: Tensor, start: int, count: int) -> Tensor:
    """Return `count` elements of the row-major order as words, the last one padded with zeros."""
    size = count * tensor.itemsize
    make = torch.zeros if size % WORD_BYTES else torch.empty
    words = make(-(-size // WORD_BYTES), dtype=torch.int32, device=tensor.device)
    copy_elements(tensor, start, count, words)
    return words


def on_host(sums: Sequence[tuple[Sequence[T], Tensor]]) -> Iterator[tuple[T, int]]:
    """The pairs of position and sum, with one copy for all that is on one device."""
    by_device: dict[torch.device, list[tuple[Sequence[T], Tensor]]] = {}
    for positions, sum_tensor in sums:
        by_device.setdefault(sum_tensor.device, []).append((positions, sum_tensor))
    for parts in by_device.values():
        values = torch.cat([sum_tensor.view(-1) for _, sum_tensor in parts]).tolist()
        yield from zip((position for positions, _ in parts for position in positions), values, strict=True)
