"""Bagging: small nets on bootstrap samples in a process pool, then a stacked vote."""
import multiprocessing as mp
import pickle

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

MEMBERS, PROCS = 10, 3


def data():
    d = load_digits()
    x = torch.tensor(d.data, dtype=torch.float32) / 16
    y = torch.tensor(d.target)
    order = np.random.RandomState(0).permutation(len(x))
    return x[order], y[order]


def member_net(hidden):
    return nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def fit_member(seed):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    rng = np.random.RandomState(seed)
    x, y = data()
    boot = rng.randint(0, 1200, 500)
    net = member_net(12 + 4 * (seed % 5))
    opt = torch.optim.SGD(net.parameters(), lr=0.2)
    for _ in range(6):
        for b in torch.randperm(500).split(50):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x[boot][b]), y[boot][b]).backward()
            opt.step()
    with torch.no_grad():
        return net(x).softmax(1).numpy(), {k: v.numpy() for k, v in net.state_dict().items()}


def collect(seeds):
    probs, members = [], []
    with mp.get_context("fork").Pool(PROCS) as pool:
        for i, (p, state) in enumerate(pool.imap_unordered(fit_member, seeds), 1):
            print(f"\rmembers {i}/{len(seeds)}", end="", flush=True)
            probs.append(p)
            members.append(state)
    print()
    return np.stack(probs, 1), members


def majority(probs):
    votes = probs.argmax(2)
    return np.array([np.bincount(v, minlength=10).argmax() for v in votes])


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    probs, members = collect(range(100, 100 + MEMBERS))
    _, y = data()
    vote = majority(probs[1200:1500])
    print("majority vote %.4f" % (vote == y[1200:1500].numpy()).mean())
    z = torch.from_numpy(probs).flatten(1)
    stack = nn.Linear(z.shape[1], 10)
    opt = torch.optim.Adam(stack.parameters(), lr=5e-3)
    for step in range(60):
        b = torch.randint(1200, 1500, (64,))
        loss = nn.functional.cross_entropy(stack(z[b]), y[b])
        opt.zero_grad()
        loss.backward()
        opt.step()
    acc = (stack(z[1500:]).argmax(1) == y[1500:]).float().mean().item()
    print(f"stacked: loss {loss.item():.6f} acc {acc:.4f}")
    with open("ensemble.pkl", "wb") as f:
        pickle.dump({"members": members, "stack": {k: v.numpy() for k, v in stack.state_dict().items()}}, f)


if __name__ == "__main__":
    main()
