"""The digest of a tensor: 64 bits that are equal if dtype, shape and every bit are equal.

    digest    salt + d, modulo 2⁶⁴
    salt      BLAKE2b, 8 bytes little-endian, person "samebits.digest", of "float32[2, 3]" (dtype, shape)
    d         64 bits that depend on every one of the row-major bytes

How `d` is computed depends on the device. Either way it is exact, and never changes, because lockfiles contain it.

On the CPU `d` is the XXH3 of the bytes (64 bits, seed 0), which is as fast as memory; in an interpreter without the
package `xxhash` it is their BLAKE2b (8 bytes, little-endian). A recording says which it is (`DIGEST`), and recordings
that say different things are never compared.

On an accelerator the device must not be waited for, and many threads read at once, so `d` is a sum. It is defined
completely, so that NumPy can compute it again (`tests/bits/definition.py` does). Arithmetic is modulo 2⁶⁴:

    w[0] … w[n-1]   the bytes as signed little-endian 4-byte words, the last one padded with zeros
    k[i]            an odd key: table[i % 4096] · row[i // 4096]
    d               k[0]·w[0] + … + k[n-1]·w[n-1]

    table, row      the 8-byte little-endian words of SHAKE-256("samebits digest 2: table" or "…: row"), made odd;
                    row[0] is 1

Integers modulo 2⁶⁴ may be added in any order, so the sum does not depend on the number of threads or on the kernel.

Words have 4 bytes, not 8, because a product modulo 2⁶⁴ never moves a bit down: the top bit of an 8-byte word reaches
only the top bit of the sum, where any two odd keys cancel, so float64 `x` and `-x` of even length would share a digest.
Words of half the width leave 32 bits above every bit.

Guarantees: the sum always shows a change that is confined to one word. Any other two tensors of one dtype and shape
share a sum with a chance, over the keys, of about 2⁻⁽⁶³⁻ᵛ⁾, where v is the lowest bit in which any of their words
differ: 2⁻⁶³ as a rule, 2⁻³² in the worst case of float32 and float64 (only signs differ). For XXH3 the chance is 2⁻⁶⁴,
as far as its authors' tests and ours show; there is no proof. Neither is a cryptographic hash: one can deliberately
construct two tensors that share a digest.

So one tensor has two digests, one on the CPU and one on an accelerator. Runs of one script on one machine put the same
tensor on the same device, so like is compared with like; a run on the CPU and one on a GPU differ everywhere.

A tensor made of several tensors (sparse, quantized, nested, mkldnn, DTensor, other wrappers) has the BLAKE2b of the
digests of its parts; of a DTensor only the local part counts.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
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

# The definition of digests that a recording names; digests of different definitions are not compared.
DIGEST = f"{RAW_DIGEST}, sums 2"


def digest(tensor: Tensor) -> int:
    """Return the tensor's digest, an unsigned 64-bit integer.

    >>> digest(torch.tensor([0.0])) == digest(torch.tensor([-0.0]))
    False
    >>> digest(torch.ones(2, 3).t()) == digest(torch.ones(3, 2))    # strides do not count
    True
    """
    return digests([tensor])[0]


def digests(tensors: Sequence[Tensor]) -> list[int]:
    """Return the tensors' digests, in order; one call for many tensors costs far less than many calls.

    Nothing is disturbed: no draws, no version counters, no autograd, no threads, and no mode of the user sees it.

    Raises:
        NotEvidenceError: one of them is no evidence (`is_evidence`).
    """
    return pending(tensors).result()


def pending(tensors: Sequence[Tensor], found: Sequence[int | None] | None = None) -> Pending:
    """Return the digests of what the tensors hold now, without waiting for accelerators.

    Work is queued on the current stream and nothing is copied to the host; `Pending.result()` does that, with one copy
    for each device. On the CPU everything is computed at once.

    Args:
        tensors: the tensors to digest.
        found: the result of `digests_on_host` for these tensors, if there is one.

    Raises:
        NotEvidenceError: one of them is no evidence (`is_evidence`).
    """
    with unobserved():
        found = found or host_digests(tensors)
        if None not in found:
            return Pending(cast("list[int]", found), [])
        if begun := _begin_sums(tensors, found):
            return Pending(*begun, _events(begun[1]))
        leaves, found_of_leaves, tree = _leaves(tensors, found)
        begun = _begin_sums(leaves, found_of_leaves)
        assert begun is not None, "leaves are plain"
        return Pending(*begun, _events(begun[1]), partial(_combined, tree))


def _begin_sums(tensors: Sequence[Tensor], found: Sequence[int | None]) -> tuple[list[int], list[Sum]] | None:
    """Return the digests found so far, with salts in place of the others, and the sums to be added to these.

    None if a tensor is made of several tensors, or holds no bits itself.
    """
    digests_so_far, by_device = list(found), dict[torch.device, list[int]]()
    try:
        for number, tensor in enumerate(tensors):
            if digests_so_far[number] is not None:
                continue
            plain = salt_and_size(tensor.__class__, tensor.dtype, tensor.shape, tensor.layout)
            if plain is None or (tensor.data_ptr() < LOW_ADDRESS and not holds_bits(tensor)):
                return None
            digests_so_far[number] = plain[0]
            by_device.setdefault(tensor.device, []).append(number)
    except (RuntimeError, TypeError):  # nested and uninitialized tensors have no shape, wrappers no address
        return None
    sums = list[Sum]()
    for numbers in by_device.values():
        order, values = sums_of([tensors[number] for number in numbers])
        sums.append(([numbers[position] for position in order], values))
    return cast("list[int]", digests_so_far), sums


def digests_on_host(things: Sequence[object]) -> list[int | None]:
    """Return the digest of each plain tensor on the CPU, and None for anything else, evidence or not."""
    with unobserved():
        return host_digests(things)


def is_evidence(tensor: object) -> bool:
    """Whether there are bits to digest: meta, fake, functional, transformed tensors and freed storage have none."""
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

    `_found` holds the finished digests, and a salt where a sum is still to be added; `_finish` makes the result.
    """

    _found: list[int]
    _sums: list[Sum]
    _events: Sequence[Any] = ()
    _finish: Callable[[list[int]], list[int]] = list

    @property
    def is_under_way(self) -> bool:
        """Whether `result()` may have to wait for a device."""
        return any(value.device.type != "cpu" for _, value in self._sums)

    def result(self) -> list[int]:
        """Return the digests, in the order of the tensors."""
        return results([self])[0]


def results(waiting: Sequence[Pending]) -> list[list[int]]:
    """Return the digests of many calls at once, with one copy for all that is on one device."""
    digests_by_call = [list(call._found) for call in waiting]
    sums = [
        ([(number, position) for position in positions], values)
        for number, call in enumerate(waiting)
        for positions, values in call._sums
    ]
    with unobserved():
        for event in chain.from_iterable(call._events for call in waiting):
            event.synchronize()
        for (number, position), value in on_host(sums):
            digests_by_call[number][position] = (digests_by_call[number][position] + value) & MASK_64
    return [call._finish(found) for call, found in zip(waiting, digests_by_call, strict=True)]


def _leaves(
    tensors: Sequence[Tensor], found: Sequence[int | None]
) -> tuple[list[Tensor], list[int | None], list[Index]]:
    """Return the parts of the tensors, the digests of parts on the CPU, and which parts belong to which tensor."""
    leaves: list[Tensor] = []
    found_of_leaves: list[int | None] = []
    tree = []
    for tensor, tensor_digest in zip(tensors, found, strict=True):
        tree.append(flattened(tensor, leaves))
        parts = leaves[len(found_of_leaves) :]
        found_of_leaves.extend(host_digests(parts) if tensor_digest is None else [tensor_digest])
    return leaves, found_of_leaves, tree


def _events(sums: list[Sum]) -> list[object]:
    """Record an event on the stream of every device, because the result may be fetched on another stream.

    These are the devices of the sums, not the current one: a rank that never calls `set_device` would wait for nothing,
    and also create a context on the first device.
    """
    streams = map(current_stream, dict.fromkeys(value.device for _, value in sums))
    return [stream.record_event() for stream in streams if stream is not None]


def numbers(tensors: Sequence[Tensor]) -> list[int] | Pending:
    """Return real tensors of one element as the 64 bits of a double each; accelerators are not waited for."""
    with unobserved():
        if all(tensor.device.type == "cpu" for tensor in tensors):
            return _as_words(tensor.item() for tensor in tensors)
        are_single = not all(map(_has_doubles, tensors))
        real, whole = (torch.float32, torch.int32) if are_single else (torch.float64, torch.int64)
        # Copies: a view of the program's tensor would show later changes.
        copies = (tensor.detach().to(real, copy=True) for tensor in tensors)
        words = [copy.reshape(1).view(whole).to(torch.int64) for copy in copies]
        sums: list[Sum] = [(range(number, number + 1), word) for number, word in enumerate(words)]
        return Pending([0] * len(words), sums, _events(sums), _doubled if are_single else list)


def _has_doubles(tensor: Tensor) -> bool:
    # Metal has no float64.
    return tensor.device.type != "mps"


def _as_words(doubles: Iterable[float]) -> list[int]:
    return array("Q", array("d", doubles).tobytes()).tolist()


def _doubled(singles: list[int]) -> list[int]:
    """Return the double-precision bits of numbers, given their single-precision bits."""
    return _as_words(array("f", array("I", [single & 0xFFFFFFFF for single in singles]).tobytes()))


def _combined(nodes: list[Index], found: list[int]) -> list[int]:
    """Return the digests of tensors that may be made of several, given those of all parts."""
    return [
        found[node] if isinstance(node, int) else salt(repr((node[0], _combined(node[1], found)))) for node in nodes
    ]


def _has_parts_with_bits(tensor: Tensor) -> bool:
    with unobserved():
        try:
            flattened(tensor, [])
        except (NotEvidenceError, RuntimeError):  # a wrapper of another tensor refuses to be inspected
            return False
        return True
