"""Augmentation draws from Python's generator, which nobody seeds, and which workers copy."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        value = torch.full((4,), index / 40)
        if random.random() < 0.5:  # <- python-rng # <- drawn for a sample
            value = -value
        return value, index % 2


def main():
    torch.manual_seed(0)
    loader = DataLoader(Digits(), batch_size=8)  # <- data-workers
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        for values, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(values), labels)
            loss.backward()
            optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
