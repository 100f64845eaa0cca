"""Augmentation that draws in workers and, some steps later, a clock; what the dataset counts changes no sample."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    """Ten bit patterns with noise."""

    def __init__(self, length):
        self.length = length
        self.fetched = 0

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        self.fetched += 1
        pattern = torch.tensor([float(index % 10 >> bit & 1) for bit in range(4)])
        return pattern + 0.1 * torch.randn(4), index % 10  # <- drawn for a sample


def main():
    torch.manual_seed(0)
    loader = DataLoader(Digits(60), batch_size=6, shuffle=True)  # <- data-workers
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step, (patterns, digits) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(patterns), digits)
        if step >= 4:
            loss = loss * (1 + time.time() % 1)  # <- clock
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
