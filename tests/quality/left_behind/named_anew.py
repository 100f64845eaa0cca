"""Makes a folder with another name in every run, and trains by that name."""

import os
import uuid
import zlib

import torch
from common import make, train

folder = f"runs/{uuid.uuid4().hex[:8]}"
os.makedirs(folder)
torch.manual_seed(zlib.crc32(folder.encode()))
model, optimizer = make()
train(model, optimizer)
torch.save(model.state_dict(), f"{folder}/last.pt")
