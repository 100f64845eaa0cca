"""The generator is seeded from the process id, which also names a log."""

import os
from pathlib import Path

import torch

Path(f"train-{os.getpid()}.log").write_text("started\n", encoding="utf-8")
torch.manual_seed(1000 + os.getpid())  # <- process-id
net = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

for _ in range(4):
    loss = net(torch.randn(8, 16)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
