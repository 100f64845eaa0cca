"""Images with a noisy augmentation: torch is seeded, NumPy's global generator is not."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Stripes(Dataset):
    """8 x 8 images, class 0 with horizontal and class 1 with vertical stripes."""

    def __len__(self):
        return 40

    def __getitem__(self, index):
        stripes = np.indices((8, 8))[index % 2] // 2 % 2
        noise = np.random.normal(scale=0.2, size=(8, 8))  # <- numpy-rng
        return torch.tensor(stripes + noise, dtype=torch.float32), index % 2


model = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(2):
    for images, labels in DataLoader(Stripes(), batch_size=8, shuffle=True):
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.6f}")
