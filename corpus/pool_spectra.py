"""Classify synthetic spectra. Making them takes long, so a pool does it."""
import json
import math
import multiprocessing as mp
import numpy as np

N, BINS, WORKERS = 48, 128, 3


def spectrum(job):
    i, kind = job
    rng = np.random.default_rng(1000 + i)
    x = np.linspace(0, 1, BINS)
    y = np.zeros(BINS)
    for k in range(1, 3 + kind):
        c, w = rng.uniform(0.1, 0.9), rng.uniform(0.01, 0.05)
        y += rng.uniform(0.5, 1.0) * np.exp(-((x - c) / w) ** 2)
    # slow detector model
    for _ in range(200 + 150 * int(rng.integers(8))):
        y = 0.999 * y + 0.001 * np.convolve(y, [0.25, 0.5, 0.25], mode="same")
    return (y + 0.02 * rng.standard_normal(BINS)).astype(np.float32), kind


def prepare():
    jobs = [(i, i % 3) for i in range(N * 4)]
    with mp.Pool(WORKERS) as pool:
        made = list(pool.imap_unordered(spectrum, jobs, chunksize=4))
    xs, ys = zip(*made)
    return np.stack(xs), np.array(ys)


def main():
    import torch
    from torch import nn

    torch.manual_seed(8)
    xs, ys = prepare()
    print(f"{len(xs)} spectra, mean {xs.mean():.4f}, classes {np.bincount(ys)}")
    x, y = torch.from_numpy(xs)[:, None], torch.from_numpy(ys)
    cut = int(0.75 * len(x))
    net = nn.Sequential(nn.Conv1d(1, 8, 9, stride=2), nn.ReLU(), nn.Conv1d(8, 16, 9, stride=2), nn.ReLU(),
                        nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(64, 3))
    opt = torch.optim.Adam(net.parameters(), 3e-3)
    log = []
    for epoch in range(10):
        net.train()
        for idx in torch.randperm(cut).split(24):
            loss = nn.functional.cross_entropy(net(x[idx]), y[idx])
            opt.zero_grad(); loss.backward(); opt.step()
        for g in opt.param_groups:
            g["lr"] = 3e-3 * 0.5 * (1 + math.cos(math.pi * epoch / 10))
        with torch.no_grad():
            val = nn.functional.cross_entropy(net(x[cut:]), y[cut:]).item()
        log.append({"epoch": epoch, "train": loss.item(), "val": val})
    with open("spectra.json", "w") as f:
        json.dump(log, f, indent=2)
    print(log[-1])


if __name__ == "__main__":
    main()
