"""Augmentation from NumPy's global generator: seeded, and still another one as soon as workers load the data."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    """Ten bit patterns, each seen through some noise."""

    def __init__(self, length, transform):
        self.length, self.transform = length, transform

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        pattern = np.array([index % 10 >> bit & 1 for bit in range(4)], dtype=np.float32)
        return self.transform(pattern), index % 10


def noise(pattern):
    return pattern + np.random.normal(scale=0.1, size=4).astype(np.float32)  # <- drawn for a sample


def main():
    np.random.seed(0)
    torch.manual_seed(0)
    loader = DataLoader(Digits(60, noise), batch_size=6)  # <- data-workers
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for patterns, digits in loader:
        loss = nn.functional.cross_entropy(model(patterns), digits)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
