"""A compiled model: the observer must vanish from compiled code, and not break its graph."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 1))
compiled = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
x = torch.randn(32, 8)
for _ in range(6):
    optimizer.zero_grad()
    compiled(x).pow(2).mean().backward()
    optimizer.step()
stats = torch._dynamo.utils.counters
assert stats["stats"]["unique_graphs"] == 1
assert not stats["graph_break"]
