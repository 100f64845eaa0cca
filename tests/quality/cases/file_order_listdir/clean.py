"""A folder of arrays, one per sample, read in the order of the names."""

import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class ArrayFolder(Dataset):
    def __init__(self, folder):
        self.paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        array = torch.from_numpy(np.load(self.paths[index]))
        return array[:-1], array[-1:]


def write_samples(folder, count):
    rng = np.random.default_rng(0)
    for number in range(count):
        np.save(os.path.join(folder, f"sample_{number:02}.npy"), rng.random(5, dtype=np.float32))


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tempfile.TemporaryDirectory() as folder:
        write_samples(folder, count=32)
        for inputs, targets in DataLoader(ArrayFolder(folder), batch_size=4, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
