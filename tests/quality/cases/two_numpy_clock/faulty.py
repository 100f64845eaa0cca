"""Two causes: NumPy draws the inputs unseeded, and the learning rate is jittered by the clock."""

import time

import numpy as np
import torch
from torch import nn


def jittered(lr):
    return lr * (1 + 1e-3 * (time.time() % 1))  # <- clock


def inputs(size):
    return torch.from_numpy(np.random.uniform(-1, 1, size=(size, 3)).astype(np.float32))  # <- numpy-rng


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Sigmoid(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=jittered(0.1))
    for _ in range(8):
        x = inputs(16)
        loss = nn.functional.mse_loss(model(x), x.prod(dim=1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
