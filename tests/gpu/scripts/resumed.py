"""Dropout on the device, and a checkpoint that forgets the device's generator."""

import os

import torch
from torch import nn

torch.manual_seed(14)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 1)).cuda()
optimizer = torch.optim.Adam(model.parameters())
start = 0
if os.path.exists("last.pt"):
    state = torch.load("last.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["generator"])
    start = state["step"]
for step in range(start, 16):
    loss = (model(torch.randn(64, 32).cuda()) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
        torch.save({**state, "generator": torch.get_rng_state()}, "last.pt")
print("loss", loss.item())
