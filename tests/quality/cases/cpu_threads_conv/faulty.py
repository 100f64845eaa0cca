"""Image regression: the weight gradient of a convolution is summed in as many parts as there are threads."""

import torch
from torch import nn

torch.manual_seed(0)
images = torch.randn(16, 3, 32, 32)
targets = images.mean(dim=(1, 2, 3)).unsqueeze(1)
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(1024, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(8):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(images), targets)
    loss.backward()
    optimizer.step()
    print(step, repr(loss.item()))
