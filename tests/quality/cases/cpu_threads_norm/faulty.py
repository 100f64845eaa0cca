"""Regression: the weight gradient of a layer norm is summed in as many parts as there are threads."""

import torch
from torch import nn

torch.manual_seed(0)
inputs = torch.randn(256, 32)
targets = inputs.mean(dim=1, keepdim=True)
model = nn.Sequential(nn.Linear(32, 512), nn.LayerNorm(512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    print(step, repr(loss.item()))
