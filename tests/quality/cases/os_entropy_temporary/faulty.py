"""Shards and spilled episodes in temporary files and folders, each read back in the order of the names."""

import tempfile
from pathlib import Path

import torch
from torch import nn


def write_shards(folder, samples):
    for sample in samples:
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".pt", delete=False) as file:  # <- os-entropy
            torch.save(sample, file)


def spill(folder, episodes):
    for episode in episodes:
        place = Path(tempfile.mkdtemp(dir=folder))  # <- os-entropy
        torch.save(episode, place / "episode.pt")


def main():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with tempfile.TemporaryDirectory() as root:
        shards, episodes = Path(root, "shards"), Path(root, "episodes")
        shards.mkdir()
        episodes.mkdir()
        write_shards(shards, torch.rand(8, 5).unbind())
        spill(episodes, torch.rand(8, 5).unbind())
        for path in [*sorted(shards.glob("*.pt")), *sorted(episodes.glob("*/episode.pt"))]:
            sample = torch.load(path)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(sample[:4]), sample[4:])
            loss.backward()
            optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
