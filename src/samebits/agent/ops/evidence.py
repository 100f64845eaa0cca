"""A digest that is cheap enough for every result of every operation.

    on the CPU, side by side      XXH3 of the bytes as they lie, 64 bits
    permuted                      the same, and the strides
    anything else                 the digest of `recording.digest`

The digest of `recording.digest` would do everywhere. On the CPU it is the same XXH3, but mixes in dtype and shape,
which an operation's arguments tell already, and puts permuted elements in order, which takes longer than reading them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from samebits.bits.digest import digest
from samebits.bits.digest.parts import is_plain
from samebits.bits.raw import memory, raw_digest

if TYPE_CHECKING:
    import torch

_is_plain: Any = is_plain
_MASK = (1 << 64) - 1


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
