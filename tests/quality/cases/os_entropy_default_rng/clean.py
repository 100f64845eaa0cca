"""Every global seed is set, and the dataset owns a generator made with one."""

import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Spirals(Dataset):
    def __init__(self, length, seed):
        self.length = length
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        arm, radius = index % 2, index / self.length
        angle = 4 * radius + np.pi * arm + self.rng.normal(scale=0.1)
        point = radius * np.array([np.cos(angle), np.sin(angle)])
        return point.astype(np.float32), arm


def main():
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    loader = DataLoader(Spirals(80, seed=0), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.NAdam(model.parameters())
    for points, arms in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points), arms)
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.9g}")


if __name__ == "__main__":
    main()
