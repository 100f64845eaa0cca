"""LR range test first, then train for a while (seconds, not epochs: nightly job)."""
import argparse
import math
import time

import torch
from torch import nn


def get_data(n=4000):
    g = torch.Generator().manual_seed(50)
    x = torch.rand(n, 8, generator=g) * 2 - 1
    y = torch.sin(3 * x[:, :1]) * x[:, 1:2] + x[:, 2:3] ** 2 - 0.5 * x[:, 3:4] + 0.05 * torch.randn(n, 1, generator=g)
    return x, y


def net():
    return nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))


def batches(x, y, size):
    while True:
        for b in torch.randperm(len(x)).split(size):
            yield x[b], y[b]


def range_test(x, y, lo=1e-5, hi=1.0, steps=40):
    model = net()
    opt = torch.optim.Adam(model.parameters(), lr=lo)
    stream, smooth, best = batches(x, y, 64), None, (math.inf, lo)
    for i in range(steps):
        lr = lo * (hi / lo) ** (i / (steps - 1))
        opt.param_groups[0]["lr"] = lr
        xb, yb = next(stream)
        loss = nn.functional.mse_loss(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        smooth = loss.item() if smooth is None else 0.8 * smooth + 0.2 * loss.item()
        if smooth < best[0]:
            best = (smooth, lr)
        elif smooth > 4 * best[0]:
            break
    return best[1] / 10


def train(model, x, y, lr, seconds):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    start, n = time.monotonic(), 0
    for xb, yb in batches(x, y, 64):
        loss = nn.functional.mse_loss(model(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        n += 1
        if n % 10 == 0 and time.monotonic() - start > seconds:
            break
    return n, loss.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=1.0)
    p.add_argument("--lr", type=float)
    a = p.parse_args()
    torch.manual_seed(0)
    x, y = get_data()
    xv, yv, x, y = x[:800], y[:800], x[800:], y[800:]
    lr = a.lr or range_test(x, y)
    print(f"lr = {lr:.3g}")
    model = net()
    n, loss = train(model, x, y, lr, a.seconds)
    with torch.no_grad():
        val = nn.functional.mse_loss(model(xv), yv).item()
    print(f"train {loss:.6f}  val {val:.8f}")
    torch.save(model.state_dict(), "nightly.pt")


if __name__ == "__main__":
    main()
