"""Shards are read by an imported module, in directory order unless it is told otherwise."""

from pathlib import Path

import shards
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

for epoch in range(2):
    for shard in shards.read(Path(__file__).parent / "data"):
        values = torch.tensor(shard)
        loss = nn.functional.mse_loss(model(values[:, :3]), values[:, 3:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
