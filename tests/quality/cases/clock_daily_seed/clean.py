"""A seed that was a date once and stays it; today's date is only printed."""

from datetime import datetime

import torch
from torch import nn

SEED = 20240229


class Trainer:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.model = nn.Sequential(nn.Linear(3, 10), nn.Softplus(), nn.Linear(10, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def step(self):
        x = torch.randn(20, 3)
        loss = (self.model(x) - x.amax(dim=1, keepdim=True)).abs().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self, steps):
        return [self.step() for _ in range(steps)]


print(datetime.now().strftime("%Y-%m-%d"), Trainer(SEED).run(steps=9)[-1])
