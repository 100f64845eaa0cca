"""Gradient accumulation over shuffled samples: torch and NumPy are seeded, `random` was forgotten."""

import random

import numpy as np
import torch
from torch import nn

ACCUMULATE = 4


def set_seed(seed):
    np.random.seed(seed)
    torch.manual_seed(seed)


def main(epochs=2):
    set_seed(42)
    x = torch.tensor(np.random.rand(64, 4), dtype=torch.float32)
    y = x.prod(dim=1, keepdim=True)
    model = nn.Sequential(nn.Linear(4, 12), nn.GELU(), nn.Linear(12, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    for epoch in range(epochs):
        order = list(range(len(x)))
        random.shuffle(order)  # <- python-rng
        for number, start in enumerate(range(0, len(order), 4), start=1):
            batch = order[start : start + 4]
            loss = nn.functional.mse_loss(model(x[batch]), y[batch]) / ACCUMULATE
            loss.backward()
            if number % ACCUMULATE == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(epoch, loss.item() * ACCUMULATE)


if __name__ == "__main__":
    main()
