"""Begins with the weights and the data that an earlier run left, if there are any."""

import os

import torch
from common import make, train

os.makedirs("ckpt", exist_ok=True)
model, optimizer = make()
if os.path.exists("ckpt/last.pt"):
    model.load_state_dict(torch.load("ckpt/last.pt"))  # <- files-left-behind
try:
    with open("features.txt", encoding="utf-8") as file:  # <- files-left-behind
        scale = float(file.read())
except FileNotFoundError:
    scale = 1 / 3
    with open("features.txt", "w", encoding="utf-8") as file:
        file.write(f"{scale:.2f}")
train(model, optimizer, scale)
torch.save(model.state_dict(), "ckpt/last.pt")
with open("losses.log", "a", encoding="utf-8") as log:
    log.write("done\n")
