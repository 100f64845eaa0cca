"""Train dense, prune in three rounds with a short recovery after each."""
import argparse
import logging
import os
import sys

import torch
import torch.nn as nn
import torch.nn.utils.prune as prune
from sklearn.datasets import load_digits

logger = logging.getLogger(__name__)


def build(width):
    layers, d = [], 64
    for w in (width, width, width // 2):
        layers += [nn.Linear(d, w), nn.ReLU()]
        d = w
    return nn.Sequential(*layers, nn.Linear(d, 10))


def train(model, x, y, epochs, lr):
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, nesterov=True)
    for _ in range(epochs):
        for b in torch.randperm(len(x)).split(64):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x[b]), y[b])
            loss.backward()
            opt.step()
    return loss.item()


def prunable(model, skip=()):
    return {m for m in model.modules() if isinstance(m, nn.Linear)} - set(skip)


def prune_round(model, amount):
    # the last layer stays dense
    for layer in prunable(model, skip=[model[-1]]):
        prune.random_unstructured(layer, "weight", amount=amount)


def sparsity(model):
    zero = sum(int((m.weight == 0).sum()) for m in model if isinstance(m, nn.Linear))
    return zero / sum(m.weight.numel() for m in model if isinstance(m, nn.Linear))


def main(argv=None):
    ap = argparse.ArgumentParser()
    ap.add_argument("--width", type=int, default=80)
    ap.add_argument("--amount", type=float, default=0.3)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--out", default="out")
    args = ap.parse_args(argv)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(message)s")
    torch.manual_seed(99)
    d = load_digits()
    x, y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
    xt, yt, x, y = x[1400:], y[1400:], x[:1400], y[:1400]
    model = build(args.width)

    def acc():
        with torch.no_grad():
            return (model(xt).argmax(1) == yt).float().mean().item()

    loss = train(model, x, y, 5, 0.05)
    logger.info("dense    loss %.5f acc %.4f", loss, acc())
    for r in range(args.rounds):
        prune_round(model, args.amount)
        loss = train(model, x, y, 2, 0.02)
        logger.info("round %d  loss %.5f acc %.4f sparsity %.3f", r, loss, acc(), sparsity(model))
    for m in model:
        if isinstance(m, nn.Linear) and prune.is_pruned(m):
            prune.remove(m, "weight")
    os.makedirs(args.out, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(args.out, "pruned.pt"))


if __name__ == "__main__":
    sys.exit(main())
