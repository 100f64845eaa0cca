"""Memory seen through views, written in place, written from outside, or not written at all."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.quality.ops.planting import Fault


def in_place() -> None:
    x, y = torch.randn(4), torch.randn(4)
    x.add_(y)  # <- in_place
    x.sum()


def in_place_with_gradient() -> None:
    x = torch.randn(4, requires_grad=True)
    y = x * 2
    y.mul_(3)  # <- in_place_with_gradient, in_place_backward
    y.sum().backward()


in_place_backward = in_place_with_gradient


def through_view() -> None:
    x = torch.randn(4, 4).exp()  # <- through_view
    seen = x.t().reshape(2, 8)[:, ::2]
    seen.sum()


def part_of_view() -> None:
    x = torch.randn(4, 4)
    x[1].add_(torch.ones(4))  # <- part_of_view
    x.sum()


def view_then_base() -> None:
    x = torch.zeros(4, 4)
    rows = x.unbind()
    rows[0].fill_(1.0)
    rows[2].mul_(rows[0]).exp_()  # <- view_then_base
    (x @ x).sum()


def assigned_part() -> None:
    x = torch.zeros(4, 4)
    x[1:3] = torch.randn(2, 4).exp()  # <- assigned_part
    x.sum()


def view_with_gradient() -> None:
    weight = torch.randn(4, 4, requires_grad=True)
    y = weight * 1
    y[0].mul_(2)  # <- view_with_gradient
    y.sum().backward()


def detached() -> None:
    weight = torch.randn(4, requires_grad=True)
    y = weight.exp()  # <- detached
    y.detach().sum()


def out_variant() -> None:
    a, b, buffer = torch.randn(4), torch.randn(4), torch.empty(4)
    torch.mul(a, b, out=buffer)  # <- out_variant
    buffer.sum()


def out_of_view() -> None:
    a, buffer = torch.randn(4), torch.zeros(2, 4)
    torch.exp(a, out=buffer[1])  # <- out_of_view
    buffer.sum()


def foreach_in_place() -> None:
    xs = [torch.randn(4), torch.randn(2)]
    torch._foreach_exp_(xs)  # <- foreach_in_place
    torch.cat(xs)


def set_data() -> None:
    weight = torch.nn.Parameter(torch.zeros(4))
    weight.data = torch.randn(4).exp()  # <- set_data
    weight.sum()


@torch.library.custom_op("planted::fill", mutates_args={"x"})
def fill(x: Tensor) -> None:
    x.fill_(1)


def leftover(*shape: int) -> Tensor:
    """Memory of which nobody knows what it held before."""
    fresh = torch.empty(shape)
    fresh.numpy().fill(1 + Fault.is_on)
    return fresh


def empty_read() -> None:
    x = leftover(4)
    (x * 2).sum()  # <- empty_read


def empty_half_read() -> None:
    x = leftover(4)
    x[:2].fill_(0)
    x.sum()  # <- empty_half_read


def empty_added_to() -> None:
    x = leftover(4)
    x.add_(1)  # <- empty_added_to


def empty_viewed() -> None:
    x = leftover(4, 4)
    x.t().exp()  # <- empty_viewed


def empty_like_read() -> None:
    x = torch.empty_like(torch.zeros(4))
    x.numpy().fill(1 + Fault.is_on)
    x.exp()  # <- empty_like_read


def empty_filled() -> None:
    leftover(4).fill_(1).sum()


def empty_copied() -> None:
    leftover(4).copy_(torch.ones(4)).sum()


def empty_zeroed() -> None:
    leftover(4).zero_().sum()


def empty_drawn() -> None:
    leftover(4).normal_().sum()


def empty_given_out() -> None:
    torch.mul(torch.ones(4), 2, out=leftover(4)).sum()


def empty_written_in_parts() -> None:
    x = leftover(4)
    x[:2] = 1
    x[2:] = 2
    x.sum()


def empty_written_and_read_in_part() -> None:
    x = leftover(4)
    x[:2] = 1
    x[:2].sum()


def empty_unread() -> None:
    leftover(4).view(2, 2).t()


def empty_list_copied() -> None:
    xs = [leftover(4), leftover(2)]
    torch._foreach_copy_(xs, [torch.ones(4), torch.ones(2)])
    torch.cat(xs)


def empty_given_to_custom_op() -> None:
    x = leftover(4)
    fill(x)
    x.sum()
