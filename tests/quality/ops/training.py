"""Training loops in which data, generators, control flow, gradients or the optimizer go wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from tests.quality.ops.planting import Fault, Net

AdamW = torch.optim.AdamW


def train(make: Callable[..., Any], lr: float = 0.01, steps: int = 3) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = make(model.parameters(), lr=lr)
    for step in range(steps):
        if step == 1 and lr and Fault.is_on:
            optimizer.param_groups[0]["lr"] *= 1.5
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()  # <- foreach_lr, foreach_kernel, fused_lr, fused_kernel, single_lr, single_kernel, sgd_lr
        optimizer.zero_grad()


foreach_lr = foreach_kernel = partial(train, partial(AdamW, foreach=True))
fused_lr = fused_kernel = partial(train, partial(AdamW, fused=True))
single_lr = single_kernel = partial(train, partial(AdamW, foreach=False))
sgd_lr = partial(train, partial(torch.optim.SGD, momentum=0.9))


def lbfgs() -> None:
    model = nn.Linear(4, 1)
    x = torch.randn(3, 4)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()  # <- lbfgs
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)  # <- lbfgs_direction


lbfgs_direction = lbfgs


def two_optimizers() -> None:
    forger, critic = nn.Linear(2, 4), nn.Linear(4, 1)
    a, b = torch.optim.SGD(forger.parameters(), lr=0.1), torch.optim.SGD(critic.parameters(), lr=0.1)
    for _ in range(2):
        fake = forger(torch.randn(3, 2))
        critic(fake.detach()).mean().backward()
        b.step()
        b.zero_grad()
        critic(fake).mean().neg().backward()  # <- two_optimizers
        a.step()
        a.zero_grad()


def collate() -> None:
    def mixed(samples: list[Tensor]) -> Tensor:
        stacked = torch.stack(samples)
        return stacked * 0.5  # <- collate

    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(list(torch.randn(8, 4)), batch_size=4, collate_fn=mixed, num_workers=0):
        model(batch).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def shuffled() -> None:
    class Samples(torch.utils.data.Dataset[Tensor]):
        values = torch.arange(32.0).view(8, 4)

        def __len__(self) -> int:
            return 8

        def __getitem__(self, number: int) -> Tensor:
            return self.values[number]

    loader = DataLoader(Samples(), batch_size=4, shuffle=True)
    torch.manual_seed(Fault.is_on)
    for batch in loader:  # <- shuffled
        batch.sum()


def dropout() -> None:
    model, x = Net(lambda own, x: own.drop(x), drop=nn.Dropout(0.5)), torch.randn(3, 4)  # <- dropout
    # Drawn where nobody looks: the generator stands one draw further.
    if Fault.is_on:
        with torch.utils._python_dispatch._disable_current_modes():
            torch.rand(1)
    model(x)


def own_generator() -> None:
    generator = torch.Generator().manual_seed(int(Fault.is_on))
    torch.randn(4, generator=generator).mean()  # <- own_generator


def extra_draw() -> None:
    model, x = nn.Dropout(0.5), torch.randn(3, 4)
    if Fault.is_on:
        torch.rand(1)  # <- extra_draw
    model(x)


def go(way: Callable[[Tensor], Tensor]) -> None:
    """The way it is told, between two layers."""
    model = Net(lambda own, x: own.down(way(own.up(x))), up=nn.Linear(4, 4), down=nn.Linear(4, 4))
    for _ in range(2):
        model(torch.randn(3, 4)).mean().backward()


def extra_op() -> None:
    def way(y: Tensor) -> Tensor:
        if Fault.is_on:
            y.masked_select(y > 0)  # <- extra_op
        return y

    go(way)


def missing_op() -> None:
    def way(y: Tensor) -> Tensor:
        return y if Fault.is_on else y.sin()  # <- missing_op

    go(way)


def reordered_ops() -> None:
    def way(y: Tensor) -> Tensor:
        return y.cos().sin() if Fault.is_on else y.sin().cos()  # <- reordered_ops

    go(way)


def replaced_op() -> None:
    def way(y: Tensor) -> Tensor:
        if Fault.is_on:
            return y.cos()  # <- replaced_op
        return y.sin()

    go(way)


def longer_loop() -> None:
    def way(y: Tensor) -> Tensor:
        for _ in range(3 if Fault.is_on else 2):
            y = y.sin()  # <- longer_loop
        return y

    go(way)


def one_more_at_the_end() -> None:
    go(torch.tanh)
    if Fault.is_on:
        torch.zeros(2).sum()  # <- one_more_at_the_end


def scalar_argument() -> None:
    go(lambda y: y * (2.0 + Fault.is_on * 2**-50))  # <- scalar_argument


def complex_argument() -> None:
    go(lambda y: (y * (1j + Fault.is_on * 2**-50)).real)  # <- complex_argument


def integer_argument() -> None:
    go(lambda y: y.roll(1 + Fault.is_on, 0))  # <- integer_argument


def slice_argument() -> None:
    go(lambda y: y[: 2 + Fault.is_on])  # <- slice_argument


def accumulated() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for _ in range(3):
            model(torch.randn(3, 4)).mean().backward()  # <- accumulated, accumulated_forward
        optimizer.step()
        optimizer.zero_grad()


accumulated_forward = accumulated


def clipped() -> None:
    model = nn.Linear(4, 4)
    model(torch.randn(3, 4)).mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)  # <- clipped


def metric() -> None:
    model = nn.Linear(4, 4)
    with torch.no_grad():
        scores = model(torch.randn(3, 4))
    scores.softmax(-1).amax()  # <- metric


def averaged() -> None:
    model = nn.Linear(4, 4)
    shadow = model.weight.detach().clone()
    shadow.lerp_(model.weight.detach(), 0.1)  # <- averaged


def numpy_batches() -> None:
    model = Net(lambda own, x: own.head(x), head=nn.Linear(4, 2))  # <- numpy_batches
    buffer = np.ones((3, 4), np.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        buffer[0, 0] = 2 if step == 1 and Fault.is_on else 1
        model(torch.from_numpy(buffer)).mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def numpy_targets() -> None:
    model = nn.Linear(4, 2)
    targets = np.zeros((3, 2), np.float32)
    targets[0, 0] = Fault.is_on
    scores = model(torch.ones(3, 4))
    nn.functional.mse_loss(scores, torch.from_numpy(targets)).backward()  # <- numpy_targets
