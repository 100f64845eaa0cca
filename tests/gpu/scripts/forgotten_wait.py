"""Data prepared on a second stream that the training does not wait for."""

import torch
from torch import nn

torch.manual_seed(9)
model = nn.Linear(256, 1).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
rows = torch.randn(4096, 256).cuda()
side = torch.cuda.Stream()
for _step in range(30):
    with torch.cuda.stream(side):  # <- stream-order
        x = rows[torch.randperm(4096, device="cuda")]
        for _ in range(20):
            x = torch.sin(x) + x
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
torch.save(model.state_dict(), "linear.pt")
