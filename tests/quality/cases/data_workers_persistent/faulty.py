"""Workers that stay from epoch to epoch, and augmentation that draws in them."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    """Ten bit patterns, some of them turned around, from a generator of the dataset's own and from Python's."""

    def __init__(self, length):
        self.length = length
        self.own = random.Random(0)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        pattern = torch.tensor([float(index % 10 >> bit & 1) for bit in range(4)])
        if self.own.random() < 0.5:  # <- drawn for a sample
            pattern = pattern.flip(0)
        return pattern + jitter(), index % 10


def jitter():
    return random.gauss(0, 0.1)  # <- drawn for a sample


def main():
    random.seed(0)
    torch.manual_seed(0)
    options = {"batch_size": 6, "shuffle": True, "num_workers": 2, "persistent_workers": True}
    loader = DataLoader(Digits(60), **options)  # <- data-workers
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        for patterns, digits in loader:
            loss = nn.functional.cross_entropy(model(patterns), digits)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
