"""A segmentation net: bilinear upsampling, whose backward adds by atomics, and a loss for every pixel."""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(7)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 8, 1)
).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
pictures = torch.rand(16, 3, 96, 96).cuda()
masks = (pictures.sum(1) * 8 / 3).long().clamp(0, 7)
for step in range(20):
    some = torch.randperm(16)[:8].cuda()
    coarse = model(pictures[some])
    fine = functional.interpolate(coarse, size=(96, 96), mode="bilinear", align_corners=False)  # <- torch-algorithms
    loss = functional.cross_entropy(fine, masks[some])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.7f}")
torch.save(model.state_dict(), "segmenter.pt")
