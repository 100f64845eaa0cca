"""The names of the classes in their order; when it was saved follows the clock, and says nothing."""

import time

import torch

torch.manual_seed(0)
data = torch.randn(32, 4)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    net(data).pow(2).mean().backward()
    optimizer.step()

labels = ["cat", "dog", "bird", "fish", "cow", "hen", "cat"]
names = sorted(set(labels))
torch.save({"net": net.state_dict(), "classes": names, "saved_at": time.time()}, "last.pt")
