"""Pool-based active learning on digits: margin sampling, five rounds."""
import argparse
import json
import os
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits


def seed_all(seed):
    torch.set_num_threads(1)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 12, 3, padding=1)
        self.fc = nn.Linear(12 * 16, 10)

    def forward(self, x):
        return self.fc(F.max_pool2d(F.relu(self.conv(x)), 2).flatten(1))


def fit(net, x, y, epochs, lr):
    opt = torch.optim.Adam(net.parameters(), lr=lr)
    for _ in range(epochs):
        for i in torch.randperm(len(x)).split(32):
            opt.zero_grad()
            loss = F.cross_entropy(net(x[i]), y[i])
            loss.backward()
            opt.step()
    return loss.item()


class Acquirer:
    """Scores a random part of the pool, so that a round stays cheap."""

    def __init__(self, pool, window=250):
        self.pool = list(pool)
        self.window = window
        self.rng = None

    def propose(self, net, x, k):
        if self.rng is None:
            self.rng = np.random.RandomState(os.getpid() % 32768)
        window = self.rng.choice(self.pool, size=min(self.window, len(self.pool)), replace=False)
        with torch.no_grad():
            p = F.softmax(net(x[window]), 1).topk(2, 1).values
        margin = (p[:, 0] - p[:, 1]).numpy()
        picked = window[np.argsort(margin, kind="stable")[:k]].tolist()
        gone = set(picked)
        self.pool = [i for i in self.pool if i not in gone]
        return picked


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--start", type=int, default=64)
    ap.add_argument("--batch", type=int, default=40)
    ap.add_argument("--seed", type=int, default=7)
    a = ap.parse_args()
    seed_all(a.seed)
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32).unsqueeze(1) / 16
    y = torch.tensor(d.target)
    order = np.random.permutation(len(x))
    test, rest = order[:400], order[400:]
    labelled = rest[: a.start].tolist()
    acq = Acquirer(rest[a.start:])
    net, curve = Net(), []
    for r in range(a.rounds):
        loss = fit(net, x[labelled], y[labelled], epochs=8, lr=3e-3)
        acc = (net(x[test]).argmax(1) == y[test]).float().mean().item()
        print(f"round {r}: {len(labelled):4d} labels  loss {loss:.4f}  acc {acc:.4f}")
        curve.append({"labels": len(labelled), "loss": loss, "acc": acc})
        labelled += acq.propose(net, x, a.batch)
    os.makedirs("out", exist_ok=True)
    with open("out/curve.json", "w") as f:
        json.dump(curve, f, indent=1)
    torch.save(net.state_dict(), "out/net.pt")


if __name__ == "__main__":
    main()
