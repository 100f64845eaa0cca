"""The digest of a tensor: 64 bits that are equal when dtype, shape and every bit are.

The definition, complete enough to compute it again with NumPy (`tests/record/test_digest.py` does). All arithmetic is
modulo 2⁶⁴, `>>` keeps the sign:

    w[0] … w[n-1]   the row-major bytes as little-endian 8-byte words, the last one filled up with zeros; w[-1] = 0
    g[i]            w[i] XOR (w[i-1] >> 32)
    k[i]            an odd key: table[i % 32768] · block[i // 32768]
    digest          salt + k[0]·g[0] + … + k[n-1]·g[n-1]

    table, block    the 8-byte little-endian words of SHAKE-256("samebits digest 1: table" or "…: block"), made odd
    salt            BLAKE2b, 8 bytes little-endian, person "samebits.digest", of "float32[2, 3]" (dtype, shape)

Integers modulo 2⁶⁴ may be added in any order, so the digest is exact: it does not depend on the number of threads, on
the kernel or on the device. It is fixed for ever, because lockfiles hold it; another definition would be "digest 2".

Why `g` and not `w`: a product modulo 2⁶⁴ never moves a bit down, so the top bit of a word reaches only the top bit of
the sum, and there any two odd keys cancel. Without the fold, float64 `x` and `-x` of even length would share a digest.
With it the upper half of every word is also seen 32 bits lower, through the next word's key.

What it promises: a change confined to one 4-byte half of a word is always seen. Any other two tensors of one dtype and
shape share a digest with a chance, over the keys, of about 2⁻⁽⁶³⁻ᵛ⁾, where v is the lowest bit in which any of their
`g` differ: 2⁻⁶³ as a rule, 2⁻³¹ in the worst that float32 and float64 do (nothing but signs differ). It is no
cryptographic hash: who knows the keys can construct two tensors that share it.

What is made of several tensors (sparse, quantized, nested, mkldnn, DTensor, other wrappers) has the BLAKE2b of its
parts' digests; of a DTensor only the local part counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from operator import attrgetter
from threading import get_ident
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from samebits.errors import SamebitsError

__all__ = ["NotEvidenceError", "Pending", "digest", "digests", "is_evidence", "pending"]

_MASK = (1 << 64) - 1
# 32768 words keep table, words and folded words of one block inside a 1-MB L2 cache together, and torch runs operations
# of up to 32768 elements on the calling thread alone: no barrier with a worker thread that the system has put to sleep.
_BLOCK_WORDS = 1 << 15
# How large a tensor may be to go into a pack, and a pack. On the CPU a small tensor is cheaper to pack (1.4 µs each,
# 0.4 ns a byte) than to sum alone (13 µs, 0.18 ns a byte); an accelerator's launches make that so for longer.
_PACKING = {"cpu": (1 << 12, _BLOCK_WORDS)}
_PACKING_ELSEWHERE = (1 << 15, 1 << 20)
# What one launch on an accelerator works on: 32 MB of temporary memory, whatever the size of the tensor.
_SLAB_BLOCKS = 128

# What torch can copy element by element. Others (sub-byte integers, whatever comes next) are digested as bytes.
_PLAIN_DTYPES = {
    getattr(torch, name, torch.float32)
    for name in (
        *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
        *("float16", "bfloat16", "float32", "float64", "complex32", "complex64", "complex128"),
        *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    )
}
_SPARSE_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}
# Memory never lies this low on a 64-bit system; an offset into freed storage does.
_LOW = 1 << 40

_Index: TypeAlias = "int | tuple[str, list[_Index]]"
_Sum: TypeAlias = "tuple[Sequence[int], Tensor | int]"


class NotEvidenceError(SamebitsError, TypeError):
    """A tensor that holds no bits of its own was to be digested."""

    kind = "not_evidence"


def digest(tensor: Tensor) -> int:
    """The tensor's digest, an unsigned 64-bit integer.

    >>> digest(torch.tensor([0.0])) == digest(torch.tensor([-0.0]))
    False
    >>> digest(torch.ones(2, 3).t()) == digest(torch.ones(3, 2))    # how it lies in memory does not count
    True
    """
    return digests([tensor])[0]


def digests(tensors: Sequence[Tensor]) -> list[int]:
    """The tensors' digests, in order; one call for many tensors costs far less than many calls.

    Nothing is disturbed: no draws, no version counters, no autograd, no threads, unseen by every mode of the user.

    Raises:
        NotEvidenceError: if one of them is no evidence (`is_evidence`).
    """
    return pending(tensors).result()


def pending(tensors: Sequence[Tensor]) -> Pending:
    """The digests of what the tensors hold now, on accelerators without waiting for them.

    Work is queued on the current stream and nothing is copied to the host; `Pending.result()` does that, one copy for
    each device. On the CPU everything is computed at once.

    Raises:
        NotEvidenceError: if one of them is no evidence (`is_evidence`).
    """
    with _unobserved():
        plan = _plan_of(tensors)
        if plan:
            return _started(plan, tensors, None)
        leaves: list[Tensor] = []
        tree = [_flattened(tensor, leaves) for tensor in tensors]
        plan = _plan_of(leaves)
        assert plan, "leaves are plain"
        return _started(plan, leaves, tree)


def is_evidence(tensor: object) -> bool:
    """Whether there are bits to digest: not so for meta, fake, functional and transformed tensors and freed storage."""
    try:
        with torch._C.DisableTorchFunction():
            if Tensor.data_ptr(tensor) >= _LOW:  # type: ignore[arg-type]
                return True
    except (RuntimeError, TypeError):
        pass
    return isinstance(tensor, Tensor) and _has_parts_with_bits(tensor)


@dataclass(frozen=True)
class Pending:
    """Digests that may still be under way; `result()` waits for them."""

    _salts: list[int]
    _sums: list[_Sum]
    _tree: list[_Index] | None
    _event: Any

    def result(self) -> list[int]:
        """The digests, in the order of the tensors."""
        found = list(self._salts)
        with _unobserved():
            if self._event:
                self._event.synchronize()
            for position, value in _on_host(self._sums):
                found[position] = (found[position] + value) & _MASK
        return found if self._tree is None else [_combined(node, found) for node in self._tree]


def _started(plan: _Plan, tensors: Sequence[Tensor], tree: list[_Index] | None) -> Pending:
    sums = plan.sums(tensors)
    # The result may be asked for on another stream than this one, so it has to know when this one has come here.
    on_cuda = any(isinstance(found, Tensor) and found.is_cuda for _, found in sums)
    return Pending(plan.salts, sums, tree, torch.cuda.current_stream().record_event() if on_cuda else None)


@contextmanager
def _unobserved() -> Iterator[None]:
    # Below autograd nothing enters a graph and tangents stay out; the others hide what we do from the user's dispatch
    # and function modes (a default device is one) and from vmap and its kin.
    core: Any = torch._C
    with (
        core._AutoDispatchBelowAutograd(),
        core._DisableTorchDispatch(),
        core.DisableTorchFunction(),
        core._DisableFuncTorch(),
    ):
        yield


# ---- keys


@cache
def _table(device: torch.device) -> Tensor:
    raw = bytearray(_stream("table", 8 * _BLOCK_WORDS))
    with torch.inference_mode(False):
        return torch.frombuffer(raw, dtype=torch.int64).bitwise_or(1).to(device)


@cache
def _block_keys(bits: int) -> list[int]:
    """2 to the power of `bits` of them."""
    raw = _stream("block", 8 << bits)
    return [int.from_bytes(raw[i : i + 8], "little") | 1 for i in range(0, len(raw), 8)]


@cache
def _block_keys_on(device: torch.device, bits: int) -> Tensor:
    with torch.inference_mode(False):
        return torch.tensor([key - (1 << 64) if key >> 63 else key for key in _block_keys(bits)], device=device)


def _stream(name: str, length: int) -> bytes:
    # SHAKE's output is a prefix of its longer output: more keys never change the first ones.
    return hashlib.shake_256(f"samebits digest 1: {name}".encode()).digest(length)


def _salt(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, person=b"samebits.digest").digest(), "little")


# ---- what there is to sum


_signature = attrgetter("__class__", "dtype", "shape", "layout", "device")


def _plan_of(tensors: Sequence[Tensor]) -> _Plan | None:
    """How to sum these tensors; None if one of them is made of several."""
    try:
        plan = _plan(tuple(map(_signature, tensors)), _whose_buffers())
        lowest = min(map(Tensor.data_ptr, tensors), default=_LOW)
    except (RuntimeError, TypeError):  # nested and uninitialized tensors have no shape, wrappers no address
        return None
    if plan and lowest < _LOW:
        for tensor in tensors:
            if not _holds_bits(tensor):
                raise _not_evidence(tensor)
    return plan


def _flattened(tensor: Tensor, leaves: list[Tensor]) -> _Index:
    """Where in `leaves`, which grows, the tensor's bits are."""
    if _is_leaf(tensor):
        if not _holds_bits(tensor):
            raise _not_evidence(tensor)
        leaves.append(tensor)
        return len(leaves) - 1
    kind, parts = _parts(tensor)
    return kind, [_flattened(part, leaves) for part in parts]


def _combined(node: _Index, found: list[int]) -> int:
    if isinstance(node, int):
        return found[node]
    kind, parts = node
    return _salt(repr((kind, [_combined(part, found) for part in parts])))


def _has_parts_with_bits(tensor: Tensor) -> bool:
    with _unobserved():
        try:
            _flattened(tensor, [])
        except NotEvidenceError:
            return False
        return True


def _is_leaf(tensor: Tensor) -> bool:
    return not tensor.is_nested and _is_plain(type(tensor), tensor.dtype, tensor.layout)


@lru_cache(maxsize=1024)
def _is_plain(kind: type[Tensor], dtype: torch.dtype, layout: torch.layout) -> bool:
    # A class with a dispatch of its own keeps its bits elsewhere, even if it says "strided".
    own_dispatch: bool = kind.__torch_dispatch__ is not Tensor.__torch_dispatch__
    return layout is torch.strided and dtype in _PLAIN_DTYPES and not own_dispatch


def _holds_bits(tensor: Tensor) -> bool:
    try:
        storage = tensor.untyped_storage()
        return storage.device.type != "meta" and (storage.data_ptr() != 0 or tensor.shape.numel() == 0)
    except RuntimeError:
        return False


def _not_evidence(tensor: Tensor) -> NotEvidenceError:
    return NotEvidenceError(
        f"a {type(tensor).__name__} on {tensor.device} holds no bits that could be digested",
        hint="leave out what is_evidence() says no to: meta, fake and functional tensors, freed storage",
    )


def _parts(tensor: Any) -> tuple[str, list[Tensor]]:
    """What the tensor is made of: all that is not in a tensor as text, and its tensors."""
    kind = f"{type(tensor).__name__} {_text(tensor.dtype)}"
    if tensor.layout in _SPARSE_PARTS:
        kind += f" {tensor.layout} {list(tensor.shape)}"
        return kind, [getattr(tensor, name)() for name in _SPARSE_PARTS[tensor.layout]]
    if tensor.is_quantized:
        return _quantized_parts(tensor, kind)
    if tensor.layout is torch._mkldnn:  # type: ignore[attr-defined]
        return kind + " mkldnn", [tensor.to_dense()]
    if tensor.layout is torch.jagged:  # the wrapper's own list of parts also names caches, which may be empty
        return kind, [part for part in (tensor._values, tensor._offsets, tensor._lengths) if part is not None]
    if tensor.is_nested:
        return kind + " nested", list(tensor.unbind())
    if hasattr(tensor, "trigger_wait"):  # the result of a collective under way: wait as its first use would
        return kind, [tensor.trigger_wait()]
    if hasattr(tensor, "__tensor_flatten__"):
        held = [getattr(tensor, name) for name in tensor.__tensor_flatten__()[0]]
        return kind, [part for part in held if isinstance(part, Tensor)]  # DTensor names its mesh among them
    if _holds_bits(tensor):  # a class with its own dispatch around real memory, or a dtype that cannot be copied
        return kind, [tensor.as_subclass(Tensor).view(torch.uint8)]
    raise _not_evidence(tensor)


def _quantized_parts(tensor: Tensor, kind: str) -> tuple[str, list[Tensor]]:
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return f"{kind} {tensor.q_scale().hex()} {tensor.q_zero_point()}", [tensor.int_repr()]
    scales, zero_points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return f"{kind} axis {tensor.q_per_channel_axis()}", [tensor.int_repr(), scales, zero_points]


# ---- sums


@dataclass(frozen=True)
class _Plan:
    """How the tensors of one list of shapes are summed: the small ones in packs, the others one by one."""

    salts: list[int]
    packs: list[_Pack]
    single: list[int]

    def sums(self, tensors: Sequence[Tensor]) -> list[_Sum]:
        packed = [(pack.positions, pack.sums(tensors)) for pack in self.packs]
        return packed + [((position,), _sum(tensors[position])) for position in self.single]


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
def _plan(signatures: tuple[tuple[Any, ...], ...], whose: tuple[int, int]) -> _Plan | None:
    if not all(_is_plain(kind, dtype, layout) for kind, dtype, _, layout, _ in signatures):
        return None
    salts, single = [], []
    small: dict[torch.device, list[_Spot]] = {}
    for position, (_, dtype, shape, _, device) in enumerate(signatures):
        salts.append(_salt(f"{_text(dtype)}{list(shape)}"))
        spot = _Spot(position, dtype, shape, _words_for(dtype, shape))
        if spot.words > _packing(device)[0]:
            single.append(position)
        elif spot.words:
            small.setdefault(device, []).append(spot)
    single += [spots[0].position for spots in small.values() if len(spots) == 1]
    packs = [pack for device, spots in small.items() if len(spots) > 1 for pack in _packs(spots, device)]
    return _Plan(salts, packs, single)


def _packs(spots: list[_Spot], device: torch.device) -> Iterator[_Pack]:
    while spots:
        starts: list[int] = []
        end = 2
        for spot in spots:
            if starts and end + spot.words > _packing(device)[1]:
                break
            starts.append(end)
            end = _even(end + spot.words + 1)
        yield _pack(spots[: len(starts)], starts, end, device)
        spots = spots[len(starts) :]


def _pack(spots: list[_Spot], starts: list[int], end: int, device: torch.device) -> _Pack:
    with torch.inference_mode(False):
        table = _table(device) * _block_keys_on(device, 0)
        words, folded, keys = (torch.zeros(end, dtype=torch.int64, device=device) for _ in range(3))
        places = []
        for spot, start in zip(spots, starts, strict=True):
            keys[start : start + spot.words] = table[: spot.words]
            place = words[start : start + _even(spot.words)].view(spot.dtype)
            places.append(place[: spot.shape.numel()].view(spot.shape))
        gaps = torch.tensor([*(start - 1 for start in starts), end - 1], device=device)
    return _Pack(tuple(spot.position for spot in spots), places, words, folded, keys, gaps)


def _sum(tensor: Tensor) -> Tensor | int:
    return _dot_sum(_words(tensor)) if tensor.device.type == "cpu" else _product_sum(_words(tensor))


def _words(tensor: Tensor) -> Tensor:
    """The row-major bytes as 8-byte words: the tensor's own memory where that is possible, else a copy."""
    offset = tensor.storage_offset() * tensor.itemsize
    aligned = (offset | tensor.nbytes | tensor.data_ptr()) % 8 == 0
    if aligned and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
        # Not view(-1): up to torch 2.6 that keeps the odd stride of a single element.
        return tensor.as_strided((tensor.numel(),), (1,)).view(torch.int64)
    count = _words_for(tensor.dtype, tensor.shape)
    words = torch.zeros(_even(count), dtype=torch.int64, device=tensor.device)
    words.view(tensor.dtype)[: tensor.numel()].view(tensor.shape).copy_(tensor)
    return words[:count]


def _dot_sum(words: Tensor) -> int:
    """The keyed sum on the CPU: one dot product for each block, 12 GB/s where multiplying and adding up reach 8."""
    scratch, count = _scratch(get_ident()), words.numel()
    scratch.before.zero_()
    total = 0
    for block_key, start in zip(_block_keys(_bits_for(count)), range(0, count, _BLOCK_WORDS), strict=False):
        block = words[start : start + _BLOCK_WORDS] if count > _BLOCK_WORDS else words
        upper, folded, keys = scratch.views(block.numel())
        torch.bitwise_right_shift(block, 32, out=upper)
        total += block_key * int(torch.dot(folded.bitwise_xor_(block), keys))
        if start + _BLOCK_WORDS < count:
            scratch.before.copy_(scratch.last)
    return total


class _Scratch:
    """Room for one folded block, and the word before it in front; one for each thread."""

    def __init__(self) -> None:
        with torch.inference_mode(False):
            self.room = torch.zeros(_BLOCK_WORDS + 1, dtype=torch.int64)
        self.before, self.last = self.room[:1], self.room[-1:]
        self.table = _table(torch.device("cpu"))
        self.views = lru_cache(maxsize=256)(self._views)

    def _views(self, count: int) -> tuple[Tensor, Tensor, Tensor]:
        return self.room[1 : count + 1], self.room[:count], self.table[:count]


@lru_cache(maxsize=64)
def _scratch(thread: int) -> _Scratch:
    return _Scratch()


def _product_sum(words: Tensor) -> Tensor:
    """The same sum where integers have no dot product, left on the device."""
    table = _table(words.device)
    block_keys = _block_keys_on(words.device, _bits_for(words.numel()))
    slab_words = _SLAB_BLOCKS * _BLOCK_WORDS
    sums = []
    for slab, start in enumerate(range(0, words.numel(), slab_words)):
        folded = _folded(words, start, min(start + slab_words, words.numel()))
        rows = folded.view(-1, _BLOCK_WORDS).mul_(table).sum(1)
        sums.append(rows.mul_(block_keys[slab * _SLAB_BLOCKS :][: rows.numel()]).sum())
    return torch.stack(sums).sum()


def _folded(words: Tensor, start: int, stop: int) -> Tensor:
    """`g[start:stop]`, filled up with zeros to whole blocks."""
    blocks = -(-(stop - start) // _BLOCK_WORDS)
    folded = torch.zeros(blocks * _BLOCK_WORDS, dtype=torch.int64, device=words.device)
    first = 0 if start else 1
    folded[first : stop - start] = words[start - 1 + first : stop - 1] >> 32
    folded[: stop - start].bitwise_xor_(words[start:stop])
    return folded


def _on_host(sums: list[_Sum]) -> Iterator[tuple[int, int]]:
    """Each position with its sum; one copy brings all that is on one device."""
    there: dict[torch.device, list[tuple[Sequence[int], Tensor]]] = {}
    for positions, found in sums:
        if isinstance(found, int):
            yield positions[0], found
        else:
            there.setdefault(found.device, []).append((positions, found))
    for parts in there.values():
        values = torch.cat([found.view(-1) for _, found in parts]).tolist()
        yield from zip((position for positions, _ in parts for position in positions), values, strict=True)


def _packing(device: torch.device) -> tuple[int, int]:
    return _PACKING.get(device.type, _PACKING_ELSEWHERE)


def _words_for(dtype: torch.dtype, shape: torch.Size) -> int:
    return -(-shape.numel() * dtype.itemsize // 8)


def _bits_for(words: int) -> int:
    """The power of two that is enough block keys for so many words; few lengths of that list are ever made."""
    return ((words - 1) // _BLOCK_WORDS).bit_length()


def _even(count: int) -> int:
    # 16-byte elements (complex128) must begin at a multiple of 16 bytes.
    return count + count % 2


def _text(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
