"""Losses: negative log-likelihood over planes, and the gradient of CTC (connectionist temporal classification)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from samebits.ops.sums import add_at, total, widened

_NONE, _MEAN = 0, 1


def nll_loss2d_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor] | None:
    """Return the sum or mean of `-weight[target] * self[n, target, h, w]`, and the sum of the weights.

    Args:
        self: log-probabilities (N, C, H, W), any floating dtype.
        target: classes (N, H, W), int64.
        weight: weights of the classes (C), or None.
        reduction: 1 for the mean, 2 for the sum; without a reduction torch's own kernel computes, and does not race.
        ignore_index: the class whose elements do not count.

    Returns:
        Two scalars of the dtype of `self`; added up in float32 for half types.

    Raises:
        IndexError, RuntimeError: a target is not a class.
    """
    if reduction == _NONE:
        return None
    is_counted = target != ignore_index
    index = target.where(is_counted, 0)
    # Not multiplied by zero: elements that do not count may be infinite.
    picked = widened(self.gather(1, index.unsqueeze(1)).squeeze(1)).where(is_counted, 0)
    if weight is None:
        weight_sum = is_counted.sum().to(picked.dtype)
    else:
        weights = widened(weight)[index].where(is_counted, 0)
        picked, weight_sum = picked * weights, total(weights)
    loss = -total(picked)
    return (loss / weight_sum if reduction == _MEAN else loss).to(self.dtype), weight_sum.to(self.dtype)


def ctc_loss_backward(
    grad: Tensor,
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[int] | Tensor,
    target_lengths: Sequence[int] | Tensor,
    neg_log_likelihood: Tensor,
    log_alpha: Tensor,
    blank: int,
    zero_infinity: bool = False,
) -> Tensor:
    """Return `grad * (p - posterior)`, where the posterior of a class at a time is that of all states that emit it.

    The states' forward variables are given. Their backward variables are the forward variables of the reversed loss:
    reversed in time and in the target (Graves et al. 2006, section 4.1).

    Args:
        grad: (N), gradients of the losses.
        log_probs: (T, N, C), float32 or float64.
        targets: (N, S), or (sum of target_lengths), int64 or int32.
        input_lengths: N lengths, up to T.
        target_lengths: N lengths.
        neg_log_likelihood: (N), the losses.
        log_alpha: (N, T, 2 * L + 1), forward variables, including those of the blanks.
        blank: the blank class.
        zero_infinity: whether infinite losses have a gradient of zero.

    Returns:
        A tensor like `log_probs`; zero beyond each input's length.
    """
    times, count, classes = log_probs.shape
    device, states = log_probs.device, log_alpha.shape[2]
    lengths, sizes = (torch.as_tensor(one, device=device, dtype=torch.int64) for one in (input_lengths, target_lengths))
    position = torch.arange(states // 2, device=device)
    is_target = position < sizes.unsqueeze(1)
    if targets.dim() == 2:
        padded = functional.pad(targets, (0, max(0, states // 2 - targets.shape[1])))[:, : states // 2]
    else:
        starts = sizes.cumsum(0) - sizes
        padded = targets[(starts.unsqueeze(1) + position).where(is_target, 0)] if targets.numel() else is_target.long()
    padded = padded.where(is_target, blank).long()

    # The reversed loss counts times and targets of each row from the end: `back` and `opposite` convert, both ways.
    time = torch.arange(times, device=device)
    is_time = time < lengths.unsqueeze(1)
    back = (lengths.unsqueeze(1) - 1 - time).where(is_time, 0)
    reversed_probs = log_probs.gather(0, back.t().unsqueeze(2).expand(-1, -1, classes))
    reversed_targets = padded.gather(1, (sizes.unsqueeze(1) - 1 - position).where(is_target, 0))
    beta = torch._ctc_loss(reversed_probs, reversed_targets, lengths.tolist(), sizes.tolist(), blank, False)[1]
    state = torch.arange(states, device=device)
    is_state = state <= 2 * sizes.unsqueeze(1)
    opposite = (2 * sizes.unsqueeze(1) - state).where(is_state, 0)
    beta = beta[:, :, :states].gather(1, back.unsqueeze(2).expand(-1, -1, beta.shape[2]))
    beta = beta.gather(2, opposite.unsqueeze(1).expand(-1, times, -1))

    emitted = torch.full((count, states), blank, device=device)
    emitted[:, 1::2] = padded
    probs = log_probs.transpose(0, 1)
    logs = probs.gather(2, emitted.unsqueeze(1).expand(-1, times, -1))
    posterior = (log_alpha + beta + neg_log_likelihood.view(-1, 1, 1) - logs).exp()
    posterior = posterior.where(is_state.unsqueeze(1) & (logs > -torch.inf), 0)
    keys = emitted + torch.arange(count, device=device).mul_(classes).unsqueeze(1)
    sums = add_at(count * classes, keys.flatten(), posterior.transpose(1, 2).reshape(-1, times))
    result = (probs.exp() - sums.view(count, classes, times).transpose(1, 2)) * grad.view(-1, 1, 1)
    if zero_infinity:
        result = result.where(neg_log_likelihood.view(-1, 1, 1) < torch.inf, 0)
    return result.where(is_time.unsqueeze(2), 0).transpose(0, 1).contiguous()
