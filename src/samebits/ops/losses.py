"""Losses: the negative log-likelihood over planes, and the gradient of the loss of connectionist classification."""

from __future__ import annotations

from torch import Tensor

from samebits.ops.sums import total, wide

_NONE, _MEAN = 0, 1


def nll_loss2d_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    """The sum or mean of `-weight[target] * self[n, target, h, w]`, and the sum of the weights.

    Args:
        self: log-probabilities (N, C, H, W), any floating dtype.
        target: classes (N, H, W), int64.
        weight: of classes (C), or None.
        reduction: 1 for the mean, 2 for the sum; without a reduction torch's own kernel does not race.
        ignore_index: the class that does not count.

    Returns:
        Two scalars of the dtype of `self`; added up in float32 for half types.

    Raises:
        IndexError, RuntimeError: a target is no class.
    """
    if reduction == _NONE:
        return NotImplemented
    is_counted = target != ignore_index
    index = target.where(is_counted, 0)
    picked = wide(self.gather(1, index.unsqueeze(1)).squeeze(1))
    weights = is_counted.to(picked.dtype)
    if weight is not None:
        weights = wide(weight)[index] * weights
    # Not multiplied by zero: what does not count may be infinite.
    loss = -total((picked * weights).where(is_counted, 0))
    whole = total(weights)
    return (loss / whole if reduction == _MEAN else loss).to(self.dtype), whole.to(self.dtype)
