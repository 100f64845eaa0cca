"""Autoencoder: `torch.seed()` looks like it sets a seed, and sets a new one in every run."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.seed()  # <- os-entropy
    print("seed", torch.initial_seed())
    data = torch.rand(64, 1, 8, 8)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.ConvTranspose2d(4, 1, 4, stride=2, padding=1),
    )
    optimizer = torch.optim.Adam(model.parameters())
    for (images,) in DataLoader(TensorDataset(data), batch_size=8, shuffle=True):
        loss = nn.functional.mse_loss(model(images), images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
