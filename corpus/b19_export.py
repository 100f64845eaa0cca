"""Train, trace to TorchScript, report robustness to noise in metrics.json and a picture."""
import json
import os
import time
import warnings

import numpy as np
import torch
import torch.nn as nn
from sklearn.datasets import load_digits

warnings.filterwarnings("ignore", category=DeprecationWarning)
OUT = "export"


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 64), nn.ReLU())
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        return self.out(self.body(x))


def load():
    d = load_digits()
    x = torch.tensor(d.images, dtype=torch.float32).unsqueeze(1) / 16
    y = torch.tensor(d.target)
    p = np.random.permutation(len(x))
    return x[p[:1400]], y[p[:1400]], x[p[1400:]], y[p[1400:]]


def train(model, x, y, epochs=4):
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for e in range(epochs):
        for b in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x[b]), y[b])
            loss.backward()
            opt.step()
        print(f"epoch {e}: {loss.item():.6f}")


@torch.no_grad()
def robustness(script, x, y, levels=(0.0, 0.1, 0.2, 0.4, 0.6)):
    rng = np.random.RandomState(int(time.time()))
    res = {}
    for s in levels:
        noisy = x + torch.from_numpy(rng.normal(0, s, x.shape)).float()
        logits = script(noisy)
        res[str(s)] = {"acc": (logits.argmax(1) == y).float().mean().item(),
                       "nll": nn.functional.cross_entropy(logits, y).item()}
    return res


def picture(res, path):
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    fig, ax = plt.subplots(figsize=(4, 3), dpi=80)
    ax.plot([float(k) for k in res], [v["acc"] for v in res.values()], "o-")
    ax.set_xlabel("noise")
    ax.set_ylabel("accuracy")
    fig.savefig(path)


def main():
    np.random.seed(21)
    torch.manual_seed(21)
    x, y, xt, yt = load()
    model = Classifier()
    train(model, x, y)
    model.eval()
    os.makedirs(OUT, exist_ok=True)
    script = torch.jit.trace(model, xt[:1])
    script.save(os.path.join(OUT, "model.ts"))
    res = robustness(torch.jit.load(os.path.join(OUT, "model.ts")), xt, yt)
    for k, v in res.items():
        print(f"noise {k}: acc {v['acc']:.4f} nll {v['nll']:.5f}")
    with open(os.path.join(OUT, "metrics.json"), "w") as f:
        json.dump(res, f, indent=2)
    picture(res, os.path.join(OUT, "robustness.png"))


if __name__ == "__main__":
    main()
