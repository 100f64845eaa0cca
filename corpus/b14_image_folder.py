"""Writes the digits as an image folder (one folder a class), then trains from there."""
import os
import tempfile
from collections import Counter

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROOT = "images"
torch.manual_seed(77)
np.random.seed(77)


def write_pgm(folder, img):
    """Half-written pictures are worse than none: a fresh name each."""
    fd, path = tempfile.mkstemp(suffix=".pgm", prefix="img_", dir=folder)
    with os.fdopen(fd, "wb") as f:
        f.write(b"P5\n8 8\n255\n" + img.tobytes())
    return path


def export(root, limit=900):
    d = load_digits()
    for img, label in zip(d.images[:limit], d.target[:limit]):
        folder = os.path.join(root, f"class_{label}")
        os.makedirs(folder, exist_ok=True)
        write_pgm(folder, (img * 15.9).astype(np.uint8))


class PgmFolder(Dataset):
    def __init__(self, root, part):
        self.items = []
        self.classes = sorted(e.name for e in os.scandir(root) if e.is_dir())
        for c, name in enumerate(self.classes):
            files = sorted(os.listdir(os.path.join(root, name)))
            cut = int(0.8 * len(files))
            files = files[:cut] if part == "train" else files[cut:]
            self.items += [(os.path.join(root, name, f), c) for f in files]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        path, c = self.items[i]
        with open(path, "rb") as f:
            raw = f.read()[-64:]
        x = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(1, 8, 8).float() / 255
        return x, c


def main():
    if not os.path.isdir(ROOT):
        export(ROOT)
    train, test = PgmFolder(ROOT, "train"), PgmFolder(ROOT, "test")
    print(len(train), "training pictures,", dict(Counter(c for _, c in train.items)))
    net = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10))
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    for epoch in range(5):
        for x, y in DataLoader(train, batch_size=48, shuffle=True):
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        good = sum((net(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, batch_size=128))
        print(f"epoch {epoch}: loss={loss.item():.6f} acc={good / len(test):.4f}")
    torch.save(net.state_dict(), "folder_net.pt")


if __name__ == "__main__":
    main()
