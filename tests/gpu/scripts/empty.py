"""A buffer that is only partly filled before it is used."""

import torch
from torch import nn

torch.manual_seed(10)
model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(20):
    noise = torch.randn(3000, 32, device="cuda")
    print(step, noise.mean().item())
    padded = torch.empty(64, 32, device="cuda")  # <- uninitialized-memory
    padded[:50] = torch.randn(50, 32).cuda()
    loss = model(padded.nan_to_num(0, 1, -1).clamp(-3, 3)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
