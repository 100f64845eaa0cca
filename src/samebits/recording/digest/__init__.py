"""The digest of a tensor: 64 bits that are equal when dtype, shape and every bit are.

The definition, complete enough to compute it again with NumPy (`tests/recording/test_digest.py` does). All arithmetic
is modulo 2⁶⁴, `>>` keeps the sign:

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

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from samebits.recording.digest.keys import salt
from samebits.recording.digest.packs import Plan, Sum, on_host, plan_of
from samebits.recording.digest.parts import LOW_ADDRESS, Index, NotEvidenceError, flattened

__all__ = [
    "NotEvidenceError",
    "Pending",
    "digest",
    "digests",
    "is_evidence",
    "numbers",
    "pending",
    "results",
    "unobserved",
]

_MASK = (1 << 64) - 1
_WORD, _DOUBLE = struct.Struct("<Q"), struct.Struct("<d")


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
    with unobserved():
        plan = plan_of(tensors)
        if plan:
            return _started(plan, tensors, None)
        leaves: list[Tensor] = []
        tree = [flattened(tensor, leaves) for tensor in tensors]
        plan = plan_of(leaves)
        assert plan, "leaves are plain"
        return _started(plan, leaves, tree)


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
    """Digests that may still be under way; `result()` waits for them."""

    _salts: list[int]
    _sums: list[Sum]
    _tree: list[Index] | None
    _event: Any

    def result(self) -> list[int]:
        """The digests, in the order of the tensors."""
        return results([self])[0]


def results(waiting: Sequence[Pending]) -> list[list[int]]:
    """The digests of many calls at once: one copy brings all that is on one device."""
    found = [list(some._salts) for some in waiting]
    where: list[tuple[int, int]] = []
    sums: list[Sum] = []
    for number, some in enumerate(waiting):
        for positions, value in some._sums:
            sums.append((range(len(where), len(where) + len(positions)), value))
            where.extend((number, position) for position in positions)
    with unobserved():
        for some in waiting:
            if some._event:
                some._event.synchronize()
        for at, value in on_host(sums):
            number, position = where[at]
            found[number][position] = (found[number][position] + value) & _MASK
    return [
        own if some._tree is None else [_combined(node, own) for node in some._tree]
        for some, own in zip(waiting, found, strict=True)
    ]


def _started(plan: Plan, tensors: Sequence[Tensor], tree: list[Index] | None) -> Pending:
    sums = plan.sums(tensors)
    # The result may be asked for on another stream than this one, so it has to know when this one has come here.
    on_cuda = any(isinstance(found, Tensor) and found.is_cuda for _, found in sums)
    return Pending(plan.salts, sums, tree, torch.cuda.current_stream().record_event() if on_cuda else None)


def numbers(tensors: Sequence[Tensor]) -> list[int] | Pending:
    """Real tensors of one element as they are: 64 bits of each as a double. On an accelerator nothing is waited for."""
    with unobserved():
        if all(tensor.device.type == "cpu" for tensor in tensors):
            return [int(_WORD.unpack(_DOUBLE.pack(tensor.item()))[0]) for tensor in tensors]
        words = [tensor.detach().to(torch.float64).reshape(1).view(torch.int64) for tensor in tensors]
        event = torch.cuda.current_stream().record_event() if any(word.is_cuda for word in words) else None
    sums: list[Sum] = [(range(number, number + 1), word) for number, word in enumerate(words)]
    return Pending([0] * len(words), sums, None, event)


@contextmanager
def unobserved() -> Iterator[None]:
    """Torch operations inside are nobody's business: no graph, no mode of the user's, no transform sees them."""
    # Below autograd nothing enters a graph and tangents stay out; the others hide what we do from the user's dispatch
    # and function modes (a default device is one) and from vmap and its kin.
    core: Any = torch._C
    with (
        _untraced(core._get_tracing_state()),
        core._AutoDispatchBelowAutograd(),
        core._DisableTorchDispatch(),
        core.DisableTorchFunction(),
        core._DisableFuncTorch(),
    ):
        yield


@contextmanager
def _untraced(state: Any) -> Iterator[None]:
    # torch.jit.trace writes down what it sees. Only where it is at work: setting its state is forbidden elsewhere.
    if state is None:
        yield
        return
    core: Any = torch._C
    core._set_tracing_state(None)
    try:
        yield
    finally:
        core._set_tracing_state(state)


def _combined(node: Index, found: list[int]) -> int:
    if isinstance(node, int):
        return found[node]
    kind, parts = node
    return salt(repr((kind, [_combined(part, found) for part in parts])))


def _has_parts_with_bits(tensor: Tensor) -> bool:
    with unobserved():
        try:
            flattened(tensor, [])
        except NotEvidenceError:
            return False
        return True
