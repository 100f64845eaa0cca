"""The digest of a tensor: 64 bits that are equal when dtype, shape and every bit are.

    digest    salt + d, modulo 2⁶⁴
    salt      BLAKE2b, 8 bytes little-endian, person "samebits.digest", of "float32[2, 3]" (dtype, shape)
    d         64 bits that depend on every one of the row-major bytes

What `d` is depends on where the tensor lies. Either way it is exact, and fixed for ever, because lockfiles hold it.

On the CPU `d` is the XXH3 of the bytes (64 bits, seed 0), which reads as fast as memory gives; in an interpreter
without the package `xxhash` it is their BLAKE2b (8 bytes, little-endian). A recording says which (`DIGEST`), and
recordings that say different things are never compared.

Elsewhere the device must not be waited for, and many threads read at once, so `d` is a sum, defined completely enough
to compute it again with NumPy (`tests/bits/definition.py` does). Arithmetic is modulo 2⁶⁴:

    w[0] … w[n-1]   the bytes as little-endian 4-byte words, the last one filled up with zeros, each with its sign
    k[i]            an odd key: table[i % 4096] · row[i // 4096]
    d               k[0]·w[0] + … + k[n-1]·w[n-1]

    table, row      the 8-byte little-endian words of SHAKE-256("samebits digest 2: table" or "…: row"), made odd;
                    row[0] is 1

Integers modulo 2⁶⁴ may be added in any order, so the sum does not depend on the number of threads or on the kernel.

Why words of 4 bytes and not of 8: a product modulo 2⁶⁴ never moves a bit down, so the top bit of an 8-byte word
reaches only the top bit of the sum, and there any two odd keys cancel: float64 `x` and `-x` of even length would share
a digest. Words of half the width leave 32 bits above every bit.

What they promise: of the sum, that a change confined to one word is always seen; any other two tensors of one dtype and
shape share a sum with a chance, over the keys, of about 2⁻⁽⁶³⁻ᵛ⁾, where v is the lowest bit in which any of their words
differ: 2⁻⁶³ as a rule, 2⁻³² in the worst that float32 and float64 do (nothing but signs differ). Of XXH3, a chance of
2⁻⁶⁴, as far as its authors' tests and ours show; it has no proof. Neither is a cryptographic hash: one can deliberately
construct two tensors that share a digest.

So one tensor has two digests, one on the CPU and one on an accelerator. Runs of one script on one machine put the same
tensor in the same place, and compare like with like; a run on the CPU and one on a GPU are different everywhere.

What is made of several tensors (sparse, quantized, nested, mkldnn, DTensor, other wrappers) has the BLAKE2b of its
parts' digests; of a DTensor only the local part counts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from samebits.accelerators.devices import current_stream
from samebits.bits.digest.host import host_digests, salt_and_size
from samebits.bits.digest.keys import salt
from samebits.bits.digest.parts import LOW_ADDRESS, Index, NotEvidenceError, flattened, holds_bits
from samebits.bits.digest.sums import Sum, on_host, sums_of
from samebits.bits.digest.unseen import unobserved
from samebits.bits.raw import MASK_64, RAW_DIGEST

# What a recording says of its digests: those of another definition are not compared with them.
DIGEST = f"{RAW_DIGEST}, sums 2"
_WORD, _DOUBLE = struct.Struct("<Q"), struct.Struct("<d")
_HALF_WORD, _SINGLE = struct.Struct("<i"), struct.Struct("<f")


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


def pending(tensors: Sequence[Tensor], found: Sequence[int | None] | None = None) -> Pending:
    """The digests of what the tensors hold now, on accelerators without waiting for them.

    Work is queued on the current stream and nothing is copied to the host; `Pending.result()` does that, one copy for
    each device. On the CPU everything is computed at once.

    Args:
        tensors: whose digests.
        found: what `found_at_once` has found of them already.

    Raises:
        NotEvidenceError: if one of them is no evidence (`is_evidence`).
    """
    with unobserved():
        found = found or host_digests(tensors)
        if None not in found:
            return Pending(cast("list[int]", found), [], None)
        begun, tree = _begun(tensors, found), None
        if begun is None:
            tensors, found, tree = _leaves(tensors, found)
            begun = _begun(tensors, found)
            assert begun is not None, "leaves are plain"
        return Pending(*begun, tree, _events(begun[1]))


def _begun(tensors: Sequence[Tensor], found: Sequence[int | None]) -> tuple[list[int], list[Sum]] | None:
    """Digests as far as they are found, salts for the others, and the sums to be added; None if one is made of several.

    None as well where one holds no bits: what it is made of has none.
    """
    known, there = list(found), dict[torch.device, list[int]]()
    try:
        for number, tensor in enumerate(tensors):
            if known[number] is not None:
                continue
            plain = salt_and_size(tensor.__class__, tensor.dtype, tensor.shape, tensor.layout)
            if plain is None or (tensor.data_ptr() < LOW_ADDRESS and not holds_bits(tensor)):
                return None
            known[number] = plain[0]
            there.setdefault(tensor.device, []).append(number)
    except (RuntimeError, TypeError):  # nested and uninitialized tensors have no shape, wrappers no address
        return None
    sums = list[Sum]()
    for numbers in there.values():
        order, values = sums_of([tensors[number] for number in numbers])
        sums.append(([numbers[position] for position in order], values))
    return cast("list[int]", known), sums


def found_at_once(things: Sequence[object]) -> list[int | None]:
    """The digest of each plain tensor on the CPU; None for whatever else there is, evidence or not."""
    with unobserved():
        return host_digests(things)


def is_evidence(tensor: object) -> bool:
    """Whether there are bits to digest: not so for meta, fake, functional and transformed tensors and freed storage."""
    try:
        with torch._C.DisableTorchFunction():
            if Tensor.data_ptr(tensor) >= LOW_ADDRESS:  # type: ignore[arg-type]
                return True
    except (RuntimeError, TypeError):
        pass
    return isinstance(tensor, Tensor) and _has_parts_with_bits(tensor)


@dataclass(frozen=True)
class Pending:
    """Digests that may still be under way; `result()` waits for them.

    What is found already stands in `_found`, salts where a sum is still to be added. `_are_single`: what comes are no
    sums, but the bits of numbers in single precision.
    """

    _found: list[int]
    _sums: list[Sum]
    _tree: list[Index] | None
    _events: Sequence[Any] = ()
    _are_single: bool = False

    @property
    def is_under_way(self) -> bool:
        """Whether `result()` may have to wait for a device."""
        return any(value.device.type != "cpu" for _, value in self._sums)

    def result(self) -> list[int]:
        """The digests, in the order of the tensors."""
        return results([self])[0]


def results(waiting: Sequence[Pending]) -> list[list[int]]:
    """The digests of many calls at once: one copy brings all that is on one device."""
    found = [list(some._found) for some in waiting]
    sums = [
        ([(number, position) for position in positions], there)
        for number, some in enumerate(waiting)
        for positions, there in some._sums
    ]
    with unobserved():
        for some in waiting:
            for event in some._events:
                event.synchronize()
        for (number, position), value in on_host(sums):
            number_there = _doubled(value) if waiting[number]._are_single else value
            found[number][position] = (found[number][position] + number_there) & MASK_64
    return [
        own if some._tree is None else [_combined(node, own) for node in some._tree]
        for some, own in zip(waiting, found, strict=True)
    ]


def _leaves(
    tensors: Sequence[Tensor], found: Sequence[int | None]
) -> tuple[list[Tensor], list[int | None], list[Index]]:
    """What the tensors are made of, the digests of that which lies on the CPU, and which belongs to which."""
    leaves: list[Tensor] = []
    found_of_leaves: list[int | None] = []
    tree = []
    for tensor, known in zip(tensors, found, strict=True):
        tree.append(flattened(tensor, leaves))
        parts = leaves[len(found_of_leaves) :]
        found_of_leaves.extend(host_digests(parts) if known is None else [known])
    return leaves, found_of_leaves, tree


def _events(sums: list[Sum]) -> list[object]:
    """Of every device, that its stream has come here: the result may be asked for on another stream.

    Of the devices that the sums lie on, not of the current one: a rank that never calls `set_device` would wait for
    nothing, and make a context on the first device besides.
    """
    streams = map(current_stream, dict.fromkeys(value.device for _, value in sums))
    return [stream.record_event() for stream in streams if stream is not None]


def numbers(tensors: Sequence[Tensor]) -> list[int] | Pending:
    """Real tensors of one element as they are: 64 bits of each as a double. On an accelerator nothing is waited for."""
    with unobserved():
        if all(tensor.device.type == "cpu" for tensor in tensors):
            return [int(_WORD.unpack(_DOUBLE.pack(tensor.item()))[0]) for tensor in tensors]
        are_single = not all(map(_has_doubles, tensors))
        real, whole = (torch.float32, torch.int32) if are_single else (torch.float64, torch.int64)
        # A view of the program's tensor would show what it holds later.
        copies = (tensor.detach().to(real, copy=True) for tensor in tensors)
        words = [copy.reshape(1).view(whole).to(torch.int64) for copy in copies]
        sums: list[Sum] = [(range(number, number + 1), word) for number, word in enumerate(words)]
        return Pending([0] * len(words), sums, None, _events(sums), are_single)


def _has_doubles(tensor: Tensor) -> bool:
    # Metal has no float64.
    return tensor.device.type != "mps"


def _doubled(single: int) -> int:
    """The bits of the same number in double precision."""
    (number,) = _SINGLE.unpack(_HALF_WORD.pack(single))
    return int(_WORD.unpack(_DOUBLE.pack(number))[0])


def _combined(node: Index, found: list[int]) -> int:
    if isinstance(node, int):
        return found[node]
    kind, parts = node
    return salt(repr((kind, [_combined(part, found) for part in parts])))


def _has_parts_with_bits(tensor: Tensor) -> bool:
    with unobserved():
        try:
            flattened(tensor, [])
        except (NotEvidenceError, RuntimeError):  # what wraps another tensor refuses to be looked at
            return False
        return True
