"""A digest that is cheap enough for every input and every result of every operation.

    on the CPU, contiguous        XXH3 of the bytes as they lie (with gaps: of a contiguous copy), 64 bits
    on the CPU, permuted          the same, and the strides
    anything else                 the digest of `bits.digest`

The digest of `bits.digest` would do everywhere. On the CPU it is the same XXH3, but mixes in dtype and shape,
which an operation's arguments tell already, and puts permuted elements in order, which takes longer than reading them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from samebits.accelerators.devices import current_stream
from samebits.bits.digest import digest
from samebits.bits.digest.parts import is_plain
from samebits.bits.raw import MASK_64, memory, raw_digest

_is_plain: Any = is_plain
_weak_reference: Any = StorageWeakRef
_SWEEP_EVERY = 1024


def evidence_of(tensor: torch.Tensor) -> int:
    """Return 64 bits, equal for tensors of one dtype, shape and strides if their bits are. Below autograd only."""
    if not tensor.is_cpu or not _is_plain(type(tensor), tensor.dtype, tensor.layout) or tensor.is_nested:
        return digest(tensor)
    if tensor.is_neg() or tensor.is_conj():
        tensor = tensor.resolve_neg().resolve_conj()
    if tensor.is_contiguous():
        return _of_bytes(tensor)
    if _is_dense(tensor):
        # Permuted: read in the order in memory, which is the same in both runs if the strides are.
        return hash((_of_bytes(tensor), tensor.stride())) & MASK_64
    return _of_bytes(tensor.contiguous())


def value_of(tensor: torch.Tensor) -> int:
    """Return evidence like that of `evidence_of`, but independent of strides."""
    return evidence_of(tensor if tensor.is_contiguous() else tensor.contiguous())


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements lie side by side in memory, each once, in whatever order."""
    reach = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != reach:
                return False
            reach *= size
    return True


def _of_bytes(dense: torch.Tensor) -> int:
    return raw_digest(memory(dense.data_ptr(), dense.nbytes))


class Producers:
    """Knows which operation wrote to a memory last, of all operations that were met in this window."""

    def __init__(self) -> None:
        # By storage: a reference that only keeps its address from being used again, where its memory lay, which
        # operation wrote there, and whether nothing was written since the memory was made.
        self._known: dict[int, tuple[Any, int, object, bool]] = {}
        self._until_sweep = _SWEEP_EVERY

    def wrote(self, tensor: torch.Tensor, producer: object, is_uninitialized: bool = False) -> None:
        """Note that an operation wrote to the tensor, or made it without writing to it."""
        if tensor.layout is not torch.strided:
            return
        storage = tensor.untyped_storage()
        entry = self._known.get(storage._cdata)
        if entry is None:
            self._until_sweep -= 1
            if self._until_sweep == 0:
                self._known = {key: entry for key, entry in self._known.items() if not entry[0].expired()}
                self._until_sweep = max(_SWEEP_EVERY, len(self._known))
        alive = _weak_reference(storage) if entry is None else entry[0]
        self._known[storage._cdata] = alive, storage.data_ptr(), producer, is_uninitialized

    def of(self, tensor: torch.Tensor) -> tuple[object, bool]:
        """Return which operation wrote there last (None if none in this window), and whether it was never written."""
        if tensor.layout is torch.strided:
            storage = tensor.untyped_storage()
            _, base, producer, is_uninitialized = self._known.get(storage._cdata, (None, 0, None, False))
            # A storage may release its memory and get another (FSDP does that).
            if base == storage.data_ptr():
                return producer, is_uninitialized
        return None, False


def stream_number(device: torch.device) -> int:
    """Return the number of the stream on which this thread queues work of a device; 0 where it has none."""
    return getattr(current_stream(device), "stream_id", 0)


def lies_in_shared_memory(tensor: torch.Tensor) -> bool:
    """Whether other processes may write to the tensor; False for all that lies on an accelerator."""
    # Every storage on CUDA says that it is shared, since it could be.
    return tensor.layout is torch.strided and tensor.device.type == "cpu" and tensor.untyped_storage().is_shared()
