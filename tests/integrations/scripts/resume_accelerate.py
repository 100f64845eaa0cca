import os
import random
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn

from samebits.integrations.accelerate import Loader

IS_OURS = "ours" in sys.argv


class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((6,), index / 40) + random.random(), index % 3


if __name__ == "__main__":
    set_seed(1)
    accelerator = Accelerator(cpu=True)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = torch.utils.data.DataLoader(Noisy(), batch_size=8, shuffle=True)
    if IS_OURS:
        loader = Loader(Noisy(), batch_size=8, shuffle=True, seed=0)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    first = 0
    if os.path.exists("saved"):
        accelerator.load_state("saved")
        first = int(Path("epoch.txt").read_text())
    step = 0
    for epoch in range(first, 4):
        for x, y in loader:
            accelerator.backward(nn.functional.cross_entropy(model(x), y))
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % 3 == 0:
                accelerator.save_state("saved")
                Path("epoch.txt").write_text(str(epoch))
