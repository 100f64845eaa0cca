"""Config, overrides (key=value), and a folder outputs/DATE/TIME for each run."""
import datetime
import json
import secrets
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

DEFAULTS = """
{
  "seed": null,
  "data": {"n": 2000, "noise": 0.15, "turns": 1.5},
  "model": {"width": 48, "depth": 3},
  "optim": {"name": "RMSprop", "lr": 0.003},
  "train": {"epochs": 8, "batch": 64}
}
"""


def load_config(argv):
    cfg = json.loads(DEFAULTS)
    for arg in argv:
        key, value = arg.split("=", 1)
        node = cfg
        *path, leaf = key.split(".")
        for part in path:
            node = node[part]
        try:
            node[leaf] = json.loads(value)
        except ValueError:
            node[leaf] = value
    return cfg


def ns(d):
    return SimpleNamespace(**{k: ns(v) if isinstance(v, dict) else v for k, v in d.items()})


def spirals(c):
    t = np.sqrt(np.random.rand(c.n)) * c.turns * 2 * np.pi
    label = np.random.randint(0, 2, c.n)
    xy = np.stack([t * np.cos(t + np.pi * label), t * np.sin(t + np.pi * label)], 1) / 10
    xy += c.noise / 10 * np.random.randn(c.n, 2)
    return torch.tensor(xy, dtype=torch.float32), torch.tensor(label)


def build(c):
    layers, w = [], 2
    for _ in range(c.depth):
        layers += [nn.Linear(w, c.width), nn.ReLU()]
        w = c.width
    return nn.Sequential(*layers, nn.Linear(w, 2))


def run(cfg, out):
    seed = cfg.seed if cfg.seed is not None else secrets.randbelow(2**16)
    np.random.seed(seed)
    torch.manual_seed(seed)
    x, y = spirals(cfg.data)
    model = build(cfg.model)
    opt = getattr(torch.optim, cfg.optim.name)(model.parameters(), lr=cfg.optim.lr)
    for epoch in range(cfg.train.epochs):
        for i in torch.randperm(len(x)).split(cfg.train.batch):
            loss = nn.functional.cross_entropy(model(x[i]), y[i])
            opt.zero_grad()
            loss.backward()
            opt.step()
    with torch.no_grad():
        acc = (model(x).argmax(1) == y).float().mean().item()
    torch.save(model.state_dict(), out / "model.pt")
    return {"loss": loss.item(), "accuracy": acc}


if __name__ == "__main__":
    cfg = load_config(sys.argv[1:])
    out = Path("outputs") / datetime.datetime.now().strftime("%Y-%m-%d/%H-%M-%S")
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps(cfg, indent=2))
    result = run(ns(cfg), out)
    (out / "metrics.json").write_text(json.dumps(result))
    print(out.parts[0], result)
