import os
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from planted import Noisy, network
from torch import nn

from samebits.integrations.accelerate import Loader

IS_OURS = "ours" in sys.argv


if __name__ == "__main__":
    set_seed(1)
    accelerator = Accelerator(cpu=True)
    model = network()
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
