"""Augmentation in two DataLoader workers, with a fresh generator for every sample."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Blobs(Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        rng = np.random.default_rng()  # <- os-entropy
        center = np.full(6, index % 4, dtype=np.float32)
        return center + 0.3 * rng.standard_normal(6, dtype=np.float32), index % 4


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Blobs(), batch_size=5, shuffle=True, num_workers=2)
    for points, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points), labels)
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
