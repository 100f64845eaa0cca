# FedAvg with simulated clients. Every client has its own part of the data (non-iid).
import copy
import logging
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("fed")


@dataclass
class Cfg:
    clients: int = 6
    rounds: int = 8
    local_epochs: int = 2
    lr: float = 0.05
    seed: int = 11


cfg = Cfg()


def parts(x, y, n, rng):
    by_label = np.argsort(y, kind="stable")
    shards = np.array_split(by_label, n * 2)
    pick = rng.permutation(len(shards))
    return [np.concatenate([shards[pick[2 * i]], shards[pick[2 * i + 1]]]) for i in range(n)]


class Client:
    def __init__(self, cid, x, y):
        self.cid, self.x, self.y = cid, x, y
        self.gen = torch.Generator().manual_seed(1000 + cid)

    def train(self, weights):
        net = make_net()
        net.load_state_dict(weights)
        opt = torch.optim.SGD(net.parameters(), lr=cfg.lr, momentum=0.9)
        for _ in range(cfg.local_epochs):
            for idx in torch.randperm(len(self.x), generator=self.gen).split(32):
                opt.zero_grad()
                nn.functional.cross_entropy(net(self.x[idx]), self.y[idx]).backward()
                opt.step()
        return self.cid, len(self.x), net.state_dict()


def make_net():
    return nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))


def aggregate(futures, template):
    """Running weighted mean, so that only one update is in memory at a time."""
    total, acc = 0, {k: torch.zeros_like(v) for k, v in template.items()}
    for fut in as_completed(futures):
        _, n, state = fut.result()
        total += n
        for k in acc:
            acc[k] += (state[k] - acc[k]) * (n / total)
    return acc


def main():
    torch.manual_seed(cfg.seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(cfg.seed)
    d = load_digits()
    x, y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
    hold = rng.permutation(len(x))
    test, train = hold[:300], np.sort(hold[300:])
    clients = [Client(i, x[train[p]], y[train[p]]) for i, p in enumerate(parts(x, d.target[train], cfg.clients, rng))]
    glob = make_net()
    with ThreadPoolExecutor(cfg.clients) as pool:
        for r in range(cfg.rounds):
            state = copy.deepcopy(glob.state_dict())
            futs = [pool.submit(c.train, state) for c in clients]
            glob.load_state_dict(aggregate(futs, state))
            with torch.no_grad():
                out = glob(x[test])
                loss = nn.functional.cross_entropy(out, y[test])
            log.info("round %d  test loss %.6f  acc %.3f", r, loss.item(), (out.argmax(1) == y[test]).float().mean())
    torch.save(glob.state_dict(), "global.pt")


if __name__ == "__main__":
    main()
