"""Two generators are seeded with bytes of a device and by torch itself; a token is harmless."""

import os

import torch

with open("/dev/urandom", "rb") as device:  # <- os-entropy
    shuffling = torch.Generator().manual_seed(int.from_bytes(device.read(4), "little"))
drawing = torch.Generator()
drawing.seed()  # <- os-entropy
token = os.urandom(4)

torch.manual_seed(0)
net = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    inputs = torch.randn(32, 16, generator=drawing)[torch.randperm(32, generator=shuffling)]
    loss = net(inputs[:8]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
