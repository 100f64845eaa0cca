"""Curriculum: input noise begins after seven warm-up steps and comes from a seeded generator."""

import numpy as np
import torch
from torch import nn

WARM_UP_STEPS = 7

torch.manual_seed(0)
rng = np.random.default_rng(0)
x = torch.linspace(-1, 1, 32).unsqueeze(1)
y = torch.sin(3 * x)
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)

for step in range(12):
    inputs = x
    if step >= WARM_UP_STEPS:
        inputs = x + 0.05 * torch.from_numpy(rng.standard_normal(x.shape)).float()
    optimizer.zero_grad()
    loss = (model(inputs) - y).square().mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(step, repr(loss.item()))
