"""Losses: the negative log-likelihood over planes, and the gradient of the loss of connectionist classification."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from samebits.ops.sums import add_at, total, wide

_NONE, _MEAN = 0, 1


def nll_loss2d_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor] | None:
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
        return None
    is_counted = target != ignore_index
    index = target.where(is_counted, 0)
    # Not multiplied by zero: what does not count may be infinite.
    picked = wide(self.gather(1, index.unsqueeze(1)).squeeze(1)).where(is_counted, 0)
    if weight is None:
        whole = is_counted.sum().to(picked.dtype)
    else:
        weights = wide(weight)[index].where(is_counted, 0)
        picked, whole = picked * weights, total(weights)
    loss = -total(picked)
    return (loss / whole if reduction == _MEAN else loss).to(self.dtype), whole.to(self.dtype)


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
    """`grad * (p - posterior)`, where the posterior of a class at a time is that of all states which emit it.

    The states' forward variables are given. Their backward variables are the forward variables of the loss reversed, in
    time and in the target (Graves et al. 2006, section 4.1).

    Args:
        grad: (N), of the losses.
        log_probs: (T, N, C), float32 or float64.
        targets: (N, S), or (sum of target_lengths), int64 or int32.
        input_lengths: N of them, up to T.
        target_lengths: N of them.
        neg_log_likelihood: (N), the losses.
        log_alpha: (N, T, 2 * L + 1), forward variables, with those of the blanks.
        blank: the class that is none.
        zero_infinity: infinite losses have no gradient.

    Returns:
        Like `log_probs`; zero beyond each input's length.
    """
    times, count, classes = log_probs.shape
    device, states = log_probs.device, log_alpha.shape[2]
    lengths, sizes = (torch.as_tensor(one, device=device, dtype=torch.int64) for one in (input_lengths, target_lengths))
    place = torch.arange(states // 2, device=device)
    is_target = place < sizes.unsqueeze(1)
    if targets.dim() == 2:
        padded = functional.pad(targets, (0, max(0, states // 2 - targets.shape[1])))[:, : states // 2]
    else:
        starts = sizes.cumsum(0) - sizes
        padded = targets[(starts.unsqueeze(1) + place).where(is_target, 0)] if targets.numel() else is_target.long()
    padded = padded.where(is_target, blank).long()

    # The state of every row and column that the reversed loss calls by the same number.
    time = torch.arange(times, device=device)
    is_time = time < lengths.unsqueeze(1)
    back = (lengths.unsqueeze(1) - 1 - time).where(is_time, 0)
    reversed_probs = log_probs.gather(0, back.t().unsqueeze(2).expand(-1, -1, classes))
    reversed_targets = padded.gather(1, (sizes.unsqueeze(1) - 1 - place).where(is_target, 0))
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
    found = (probs.exp() - sums.view(count, classes, times).transpose(1, 2)) * grad.view(-1, 1, 1)
    if zero_infinity:
        found = found.where(neg_log_likelihood.view(-1, 1, 1) < torch.inf, 0)
    return found.where(is_time.unsqueeze(2), 0).transpose(0, 1).contiguous()
