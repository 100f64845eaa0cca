"""Autoregression on a synthetic series whose noise is seeded with a constant; the time is only printed."""

from datetime import datetime

import numpy as np
import torch
from torch import nn


def series(length):
    np.random.seed(60)
    walk = np.cumsum(np.random.normal(size=length))
    return torch.tensor(walk - walk.mean(), dtype=torch.float32)


def windows(values, width):
    frames = values.unfold(0, width + 1, 1)
    return frames[:, :-1], frames[:, -1:]


def main():
    torch.manual_seed(0)
    history, target = windows(series(60), width=6)
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(8):
        optimizer.zero_grad()
        loss = nn.functional.huber_loss(model(history), target)
        loss.backward()
        optimizer.step()
    print(datetime.now().isoformat(), loss.item())


if __name__ == "__main__":
    main()
