"""Makes a folder that no earlier run may have made."""

import os

import torch
from common import make, train

os.makedirs("out")  # <- files-left-behind
model, optimizer = make()
train(model, optimizer)
torch.save(model.state_dict(), "out/last.pt")
