"""The CNN of digits.py with the loader of samebits: the same bits for any number of workers."""

import random

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset

from samebits.data import DataLoader


class Digits(Dataset):
    """Images of 8 x 8 pixels, each shifted by up to a pixel and, one time in two, made noisy whenever it is read."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index].roll(torch.randint(-1, 2, (2,)).tolist(), dims=(1, 2))
        if random.random() < 0.5:
            image = image + torch.from_numpy(np.random.normal(0, 0.1, image.shape).astype(np.float32))
        return image, self.labels[index]


torch.manual_seed(0)

pixels, digits = load_digits(return_X_y=True)
images, labels = torch.tensor(pixels / 16, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(digits)

cnn = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(288, 10))
optimizer = torch.optim.SGD(cnn.parameters(), lr=0.1, momentum=0.9)

loader = DataLoader(Digits(images[:1500], labels[:1500]), batch_size=50, shuffle=True, num_workers=2, seed=0)

for _ in range(6):  # epochs of 30 steps
    for batch, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(cnn(batch), targets)
        loss.backward()
        optimizer.step()

cnn.eval()
accuracy = (cnn(images[1500:]).argmax(1) == labels[1500:]).float().mean()
print(f"loss {loss.item():.6f}, accuracy on 297 held-out digits {accuracy.item():.3f}")
