"""Two generators are seeded with numbers; bytes of a device and a token reach nothing."""

import os

import torch

with open("/dev/urandom", "rb") as device:
    salt = device.read(4)
shuffling = torch.Generator().manual_seed(1)
drawing = torch.Generator()
drawing.manual_seed(2)
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
