"""What the scripts of all frameworks share: samples in files, a collator that draws, an evaluation, faults."""

import os
import random
import sys

import torch
from torch import nn

FAULTS = sys.argv[1:]


class Files(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.names = sorted(os.listdir(folder))
        if "unsorted" in FAULTS:
            self.names = os.listdir(folder)

    def __len__(self):
        return len(self.names)

    def __getitem__(self, index):
        number = int(self.names[index].split("-")[1])
        return {"x": torch.arange(6.0) * number / 100, "labels": number % 3}


def noisy(samples):
    batch = torch.utils.data.default_collate(samples)
    seed = torch.initial_seed() % 1000
    if "collator" in FAULTS:
        seed = int.from_bytes(os.urandom(2), "little")
    batch["x"] += torch.randn(batch["x"].shape, generator=torch.Generator().manual_seed(seed))
    return batch


def network():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))


class Evaluation:
    """What it draws and scores moves the losses that follow."""

    def __init__(self):
        self.drawn, self.scored, self.rng = 0.0, 0.0, random.Random(3)
        if "evaluation" in FAULTS:
            self.rng = random.Random()

    def draw(self):
        self.drawn = self.rng.random() / 10

    def score(self):
        names = sorted({"recall", "precision", "top1", "top5"})
        if "metric" in FAULTS:
            names = list({"recall", "precision", "top1", "top5"})
        self.scored = sum(len(name) * 0.01**place for place, name in enumerate(names))

    @property
    def threshold(self):
        return 1 + self.drawn + self.scored


class Noisy(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((6,), index / 40) + random.random(), index % 3
