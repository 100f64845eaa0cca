"""A compiled network with dropout, and messages that are added up outside of it."""

import torch
from torch import nn

torch.manual_seed(11)
net = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, 64), nn.LayerNorm(64)).cuda()
model = torch.compile(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
where = torch.randint(0, 100, (20_000,)).cuda()
for _step in range(10):
    x = torch.randn(20_000, 64).cuda()
    total = torch.zeros(100, 64, device="cuda").index_add(0, where, model(x))  # <- torch-algorithms
    loss = total.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
torch.save(net.state_dict(), "compiled.pt")
