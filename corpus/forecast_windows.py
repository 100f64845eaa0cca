"""Hourly load forecasting, sliding windows, GRU, early stopping."""
import argparse
from concurrent.futures import ThreadPoolExecutor, as_completed
import numpy as np
import torch
import torch.nn as nn
from numpy.lib.stride_tricks import sliding_window_view

WINDOW, HORIZON = 48, 6


def series(n=1800):
    rng = np.random.RandomState(2)
    t = np.arange(n)
    s = 10 + 3 * np.sin(2 * np.pi * t / 24) + 1.5 * np.sin(2 * np.pi * t / 168) + 0.002 * t
    return (s + np.convolve(rng.randn(n), np.ones(5) / 5, "same")).astype(np.float32)


def windows(s):
    w = sliding_window_view(s, WINDOW + HORIZON).copy()
    return torch.from_numpy(w[:, :WINDOW, None]), torch.from_numpy(w[:, WINDOW:])


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(1, 24, batch_first=True)
        self.fc = nn.Linear(24, HORIZON)

    def forward(self, x):
        return self.fc(self.gru(x)[0][:, -1])


def validate(model, x, y, pool, chunk=7):
    def part(k):
        with torch.no_grad():
            return (model(x[k:k + chunk]) - y[k:k + chunk]).abs().sum()
    jobs = [pool.submit(part, k) for k in range(0, len(x), chunk)]
    total = torch.zeros(())
    for job in as_completed(jobs):
        total += job.result()
    return (total / y.numel()).item()


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def __call__(self, value):
        self.bad = 0 if value < self.best else self.bad + 1
        self.best = min(self.best, value)
        return self.bad > self.patience


if __name__ == "__main__":
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--lr", type=float, default=5e-3)
    opt = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    s = series()
    s = (s - s[:1300].mean()) / s[:1300].std()
    xt, yt = windows(s[:1300])
    xv, yv = windows(s[1300:])
    model, stop = Forecaster(), EarlyStopping(2)
    adam = torch.optim.Adam(model.parameters(), opt.lr)
    first, report = None, []
    with ThreadPoolExecutor(6) as pool:
        for epoch in range(opt.epochs):
            for i in torch.randperm(len(xt)).split(64):
                loss = nn.functional.l1_loss(model(xt[i]), yt[i])
                adam.zero_grad(); loss.backward(); adam.step()
            v = validate(model, xv, yv, pool)
            first = first or v
            for group in adam.param_groups:
                group["lr"] = opt.lr * min(1.0, v / first)
            report.append(f"{epoch}\t{v!r}")
            print(f"epoch {epoch}: val MAE {v:.6f}")
            if stop(v):
                break
    with open("validation.tsv", "w") as f:
        f.write("\n".join(report) + "\n")
    torch.save(model.state_dict(), "forecaster.pt")
