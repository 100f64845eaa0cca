"""Two processes train one model, one after the other."""

import torch
import torch.multiprocessing as mp
from torch import nn


def train(model):
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.linspace(-1, 1, 64).reshape(8, 8)
    for _ in range(20):
        optimizer.zero_grad()
        (model(x) - x).pow(2).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    model.share_memory()
    for _ in range(2):
        worker = mp.get_context("spawn").Process(target=train, args=(model,))
        worker.start()
        worker.join()
    x = torch.linspace(-1, 1, 64).reshape(8, 8)
    print(model(x).sum().item())
