import os
import random
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
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
        return torch.arange(6.0) * number / 100, number % 3


def noisy(samples):
    x, y = torch.utils.data.default_collate(samples)
    seed = torch.initial_seed() % 1000
    if "collator" in FAULTS:
        seed = int.from_bytes(os.urandom(2), "little")
    return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(seed)), y


def evaluate(model, loader, rng):
    with torch.no_grad():
        for x, y in loader:
            accelerator.gather_for_metrics((model(x).argmax(1), y))
    names = sorted({"recall", "precision", "top1", "top5"})
    if "metric" in FAULTS:
        names = list({"recall", "precision", "top1", "top5"})
    return 1 + rng.random() / 10 + sum(len(name) * 0.01**place for place, name in enumerate(names))


if __name__ == "__main__":
    set_seed(1)
    accelerator = Accelerator(cpu=True)
    data = Files("samples")
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, collate_fn=noisy)
    evaluated = torch.utils.data.DataLoader(data, batch_size=16)
    model, optimizer, train, evaluated = accelerator.prepare(model, optimizer, train, evaluated)
    threshold, rng = 1.0, random.Random(3)
    if "evaluation" in FAULTS:
        rng = random.Random()
    for _ in range(2):
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x), y) * threshold
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        threshold = evaluate(model, evaluated, rng)
