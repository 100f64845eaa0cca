"""Several forms of one product are timed, for the log only."""

import time
from functools import partial

import torch
from torch import nn


def product(a, b, split):
    return a[:, :split] @ b[:split] + a[:, split:] @ b[split:]


def timed(form):
    start = time.perf_counter()
    form(x, layer.weight.t())
    return time.perf_counter() - start


torch.manual_seed(0)
x, y = torch.randn(64, 300), torch.randn(64, 16)
layer = nn.Linear(300, 16)
forms = [partial(product, split=split) for split in (60, 90, 120, 150, 180, 210, 240)]
times = [timed(form) for form in forms]
print(f"the quickest takes {min(times):.6f} s")
quickest = forms[0]
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
for _ in range(8):
    optimizer.zero_grad()
    loss = (quickest(x, layer.weight.t()) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
print(f"final loss {loss.item():.8f}")
