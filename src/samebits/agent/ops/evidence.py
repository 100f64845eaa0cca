"""A digest that is cheap enough for every result of every operation.

    on the CPU, side by side      XXH3 of the bytes as they lie, 64 bits
    permuted                      the same, and the strides
    anything else                 the digest of `bits.digest`

The digest of `bits.digest` would do everywhere. On the CPU it is the same XXH3, but mixes in dtype and shape,
which an operation's arguments tell already, and puts permuted elements in order, which takes longer than reading them.

Nothing is digested twice: until a recorded operation writes to the memory of a result again, an input that lies there
is known by where it came from: which operation, which result, which look at it. That is as good as a digest,
because two runs whose recordings agree so far made the same bits there, and it costs nothing. What wrote past the
dispatcher (NumPy through the same memory, a kernel of the user's own) is not known here; so before an operation is
accused, its inputs are compared bit by bit. Memory that processes share is written by others at any time: nothing is
ever known of it, and every input that lies there is digested anew.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from samebits.bits.digest import digest
from samebits.bits.digest.parts import is_plain
from samebits.bits.raw import memory, raw_digest

_is_plain: Any = is_plain
_MASK = (1 << 64) - 1
_weak_reference: Any = StorageWeakRef
_STRIDED = torch.strided

_SWEEP_EVERY = 1024


def evidence_of(tensor: torch.Tensor) -> int:
    """64 bits that are equal when the bits of two tensors of one dtype and shape are. Below autograd only."""
    if not tensor.is_cpu or not _is_plain(type(tensor), tensor.dtype, tensor.layout) or tensor.is_nested:
        return digest(tensor)
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.resolve_neg().resolve_conj()
    if tensor.is_contiguous():
        return _of_bytes(tensor)
    if is_dense(tensor):
        # Permuted: read as it lies, which is the same order in both runs if the strides are.
        return hash((_of_bytes(tensor), tensor.stride())) & _MASK
    return _of_bytes(tensor.contiguous())


def value_of(tensor: torch.Tensor) -> int:
    """The same for whatever strides."""
    return evidence_of(tensor if tensor.is_contiguous() else tensor.contiguous())


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie side by side, each once, in whatever order."""
    if tensor.is_contiguous():
        return True
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != reach:
                return False
            reach *= size
    return True


def _of_bytes(dense: torch.Tensor) -> int:
    return raw_digest(memory(dense.data_ptr(), dense.nbytes))


class StorageState:
    """One storage.

    Attributes:
        alive: keeps the storage's address from being used again, and nothing else.
        base: where its memory lay.
        whole: stands for all that it holds; None when only some looks at it are known.
        looks: offset, shape and strides → what stands for what is seen so.
        producer: what wrote there last, for reports.
        is_uninitialized: nothing was written there since it was made.
        is_shared: other processes may write there.
    """

    __slots__ = ("alive", "base", "is_shared", "is_uninitialized", "producer", "views", "whole")

    def __init__(self, alive: Any, base: int, is_shared: bool) -> None:
        self.alive, self.base, self.is_shared = alive, base, is_shared
        self.whole: int | None = None
        self.views: dict[object, int] = {}
        self.producer: object = None
        self.is_uninitialized = False


class Memory:
    """The storages met in this window."""

    def __init__(self) -> None:
        self._held: dict[int, StorageState] = {}
        self._until_sweep = _SWEEP_EVERY

    def known(self, tensor: torch.Tensor) -> int | None:
        """What stands for the tensor's bits; None if they have to be digested."""
        if tensor.layout is not _STRIDED:
            return None
        # As `_find`, which a call costs; this is asked for every input of every operation.
        storage = tensor.untyped_storage()
        held = self._held.get(storage._cdata)
        if held is None or held.base != storage.data_ptr() or held.is_shared:
            return None
        if held.whole is None:
            return held.views.get(_look(tensor))
        if tensor.is_contiguous() and not tensor.storage_offset():
            return held.whole
        # Views that were made before the window may show any part of it.
        return hash((held.whole, _look(tensor))) & _MASK

    def digested(self, tensor: torch.Tensor, digest: int) -> None:
        """The tensor came from outside; this is its digest."""
        if tensor.layout is not _STRIDED:
            return
        held = self._find(tensor) or self._new(tensor.untyped_storage())
        if tensor.nbytes == tensor.untyped_storage().nbytes() and is_dense(tensor):
            held.whole = digest
        else:
            held.views[_look(tensor)] = digest

    def written(self, tensor: torch.Tensor, stamp: int, producer: object) -> None:
        """An operation wrote the tensor; `stamp` distinguishes this write from all others of the window."""
        if tensor.layout is not _STRIDED:
            return
        storage = tensor.untyped_storage()
        held = self._held.get(storage._cdata)
        if held is None or held.base != storage.data_ptr():
            held = self._new(storage)
        if tensor.nbytes == storage.nbytes() and is_dense(tensor):
            held.whole = stamp
            if held.views:
                held.views = {}
        elif held.whole is not None:
            held.whole = hash((held.whole, stamp, _look(tensor))) & _MASK
        else:
            held.views = {_look(tensor): stamp}
        held.producer, held.is_uninitialized = producer, False

    def lost(self, tensor: torch.Tensor, producer: object, is_uninitialized: bool = False) -> None:
        """Nothing was written there yet, or something is writing that was not waited for."""
        if tensor.layout is _STRIDED:
            held = self._find(tensor) or self._new(tensor.untyped_storage())
            held.whole, held.views, held.producer, held.is_uninitialized = None, {}, producer, is_uninitialized

    def producer(self, tensor: torch.Tensor) -> tuple[object, bool]:
        """Who wrote the tensor's memory last (None if nothing in this window), and whether it was never written."""
        held = self._find(tensor) if tensor.layout is _STRIDED else None
        return (None, False) if held is None else (held.producer, held.is_uninitialized)

    def _find(self, tensor: torch.Tensor) -> StorageState | None:
        storage = tensor.untyped_storage()
        held = self._held.get(storage._cdata)
        # Memory may be given back and taken anew under the same storage (FSDP does).
        return held if held is not None and held.base == storage.data_ptr() else None

    def _new(self, storage: torch.UntypedStorage) -> StorageState:
        self._until_sweep -= 1
        if self._until_sweep == 0:
            self._held = {key: held for key, held in self._held.items() if not held.alive.expired()}
            self._until_sweep = max(_SWEEP_EVERY, len(self._held))
        held = self._held[storage._cdata] = StorageState(
            _weak_reference(storage), storage.data_ptr(), _is_shared(storage)
        )
        return held


def lies_in_shared_memory(tensor: torch.Tensor) -> bool:
    """Whether other processes may write there; what lies on an accelerator is asked nothing."""
    return tensor.layout is _STRIDED and _is_shared(tensor.untyped_storage())


def _is_shared(storage: torch.UntypedStorage) -> bool:
    # Every storage on CUDA says that it is shared, since it could be.
    return storage.device.type == "cpu" and bool(storage.is_shared())


def _look(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.is_conj(), tensor.is_neg()
