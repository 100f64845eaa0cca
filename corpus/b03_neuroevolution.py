#!/usr/bin/env python
"""OpenAI-ES on a toy controller (balance a point in a noisy valley)."""
import csv
import random

import numpy as np
import torch

SEED = 1234
random.seed(SEED)
np.random.seed(SEED)
torch.manual_seed(SEED)

POP, SIGMA, LR, GENS = 32, 0.08, 0.05, 60


class Policy(torch.nn.Module):
    def __init__(self, hidden=16):
        super().__init__()
        self.l1 = torch.nn.Linear(3, hidden)
        self.l2 = torch.nn.Linear(hidden, 1)

    def forward(self, s):
        return torch.tanh(self.l2(torch.tanh(self.l1(s))))


def rollout(policy, starts, steps=25):
    pos, vel = starts[:, 0], starts[:, 1]
    cost = torch.zeros(())
    for t in range(steps):
        wind = 0.1 * np.sin(t / 3.0)
        a = policy(torch.stack([pos, vel, torch.full_like(pos, wind)], 1)).squeeze(1)
        vel = vel + 0.1 * (a - torch.sin(pos) + wind)
        pos = pos + 0.1 * vel
        cost = cost + (pos ** 2 + 0.1 * vel ** 2).mean()
    return -(cost / steps).item()


def centred_ranks(f):
    r = np.empty(len(f))
    r[np.argsort(f, kind="stable")] = np.arange(len(f))
    return r / (len(f) - 1) - 0.5


def kick(theta, scale):
    """Plateau: jump away from here."""
    noise = np.random.default_rng().standard_normal(theta.numel())
    return theta + scale * torch.from_numpy(noise).to(theta.dtype)


def load(policy, theta):
    torch.nn.utils.vector_to_parameters(theta, policy.parameters())


policy = Policy()
theta = torch.nn.utils.parameters_to_vector(policy.parameters()).detach().clone()
opt_theta = torch.nn.Parameter(theta.clone())
opt = torch.optim.Adam([opt_theta], lr=LR)
starts = torch.tensor(np.random.uniform(-1, 1, (16, 2)), dtype=torch.float32)
best, since, rows = -1e9, 0, []

with torch.no_grad():
    for gen in range(GENS):
        eps = torch.from_numpy(np.random.standard_normal((POP // 2, theta.numel()))).float()
        eps = torch.cat([eps, -eps])
        fit = []
        for e in eps:
            load(policy, opt_theta + SIGMA * e)
            fit.append(rollout(policy, starts))
        grad = torch.from_numpy(centred_ranks(np.array(fit))).float() @ eps / (POP * SIGMA)
        opt_theta.grad = -grad
        opt.step()
        load(policy, opt_theta.data)
        score = rollout(policy, starts)
        if score > best + 1e-3:
            best, since = score, 0
        else:
            since += 1
        if since >= 5:
            opt_theta.data = kick(opt_theta.data, SIGMA)
            since = 0
        rows.append((gen, max(fit), score))
        if gen % 10 == 0:
            print(f"[{gen:3d}] pop best {max(fit):+.5f}  mean policy {score:+.5f}")

print("final score %.8f" % score)
with open("es_log.csv", "w", newline="") as fh:
    w = csv.writer(fh)
    w.writerow(["gen", "pop_best", "score"])
    w.writerows(rows)
