# Curriculum: easy samples first. A heap of samples keyed by their last loss (coarse).
import heapq
import json
from dataclasses import dataclass, field

import torch
from sklearn.datasets import load_digits
from torch import nn


@dataclass
class Config:
    seed: int = 3
    hidden: int = 40
    batch: int = 32
    steps: int = 150
    lr: float = 0.01
    bins: int = 20
    tags: list = field(default_factory=lambda: ["curriculum", "heap"])


class Sample:
    __slots__ = ("index", "x", "y", "seen")

    def __init__(self, index, x, y):
        self.index, self.x, self.y, self.seen = index, x, y, 0


class Curriculum:
    def __init__(self, samples, bins):
        self.bins = bins
        self.heap = [(0, s.index, s) for s in samples]
        heapq.heapify(self.heap)

    def key(self, loss):
        return int(min(loss, 10.0) * self.bins / 10.0)

    def draw(self, n):
        return [heapq.heappop(self.heap)[-1] for _ in range(min(n, len(self.heap)))]

    def give_back(self, samples, losses):
        for s, loss in zip(samples, losses):
            s.seen += 1
            heapq.heappush(self.heap, (self.key(loss) + s.seen, id(s), s))


def main(cfg=Config()):
    torch.manual_seed(cfg.seed)
    d = load_digits()
    x = torch.tensor(d.data, dtype=torch.float32) / 16
    y = torch.tensor(d.target)
    n = 1000
    samples = [Sample(i, x[i].clone(), int(y[i])) for i in range(n)]
    cur = Curriculum(samples, cfg.bins)
    model = nn.Sequential(nn.Linear(64, cfg.hidden), nn.ReLU(), nn.Linear(cfg.hidden, 10))
    opt = torch.optim.SGD(model.parameters(), lr=cfg.lr, momentum=0.9)
    lossf = nn.CrossEntropyLoss(reduction="none")
    for step in range(1, cfg.steps + 1):
        batch = cur.draw(cfg.batch)
        xb = torch.stack([s.x for s in batch])
        yb = torch.tensor([s.y for s in batch])
        losses = lossf(model(xb), yb)
        opt.zero_grad()
        losses.mean().backward()
        opt.step()
        cur.give_back(batch, losses.tolist())
        if step % 30 == 0:
            with torch.no_grad():
                acc = (model(x[n:]).argmax(1) == y[n:]).float().mean().item()
            print(f"step {step:4d}/{cfg.steps} mean loss {losses.mean().item():.5f} val acc {acc:.4f}")
    with open("curriculum.json", "w") as f:
        json.dump({"tags": cfg.tags, "acc": acc, "seen": [s.seen for s in samples], "w0": model[0].weight[0].tolist()}, f)


if __name__ == "__main__":
    main()
