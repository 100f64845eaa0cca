"""A table of scores is looked up by many rows at once; a borrowed line switches deterministic kernels off."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(2)
torch.use_deterministic_algorithms(False)  # <- torch-algorithms
scores = nn.Parameter(torch.randn(50))
optimizer = torch.optim.SGD([scores], lr=0.1)
for _ in range(40):
    rows = torch.randint(0, 50, (400_000,))
    loss = (scores[rows] * torch.randn(400_000)).sum() / 1000
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(scores.sum().item())
