"""1-D convolution on waves: the augmentation of an imported module draws from a generator nobody seeded."""

import numpy as np
import torch
from augment import clip, jitter
from torch import nn


def batches(count, size):
    time = np.linspace(0.0, 1.0, 32)
    for batch in range(count):
        labels = (np.arange(size) + batch) % 3
        waves = np.sin(2 * np.pi * np.outer(labels + 1, time))
        waves = clip(jitter(waves))
        yield torch.from_numpy(waves).float().unsqueeze(1), torch.from_numpy(labels)


def train(model, steps=8):
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for waves, labels in batches(steps, size=12):
        optimizer.zero_grad()
        loss = criterion(model(waves), labels)
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(1234)
    print(train(nn.Sequential(nn.Conv1d(1, 4, 5), nn.ReLU(), nn.Flatten(), nn.Linear(112, 3))))
