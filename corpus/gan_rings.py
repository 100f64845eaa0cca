#!/usr/bin/env python
"""GAN on eight blobs. Instance noise is annealed, otherwise D wins at once."""
import argparse, csv, math, time
from pathlib import Path
import torch
from torch import nn, optim


def blobs(n):
    k = torch.randint(0, 8, (n,))
    ang = k * (2 * math.pi / 8)
    return torch.stack([ang.cos(), ang.sin()], 1) + 0.04 * torch.randn(n, 2)


def mlp(i, o, h=64):
    return nn.Sequential(nn.Linear(i, h), nn.LeakyReLU(0.2), nn.Linear(h, h), nn.LeakyReLU(0.2), nn.Linear(h, o))


class Annealer:
    """1 at the start, 0 once `warm` is over"""

    def __init__(self, sigma, warm):
        self.sigma = sigma
        self.warm = warm
        self.born = time.monotonic()

    @property
    def value(self):
        age = time.monotonic() - self.born
        if age < 0.25:            # leave D alone while everything is still warming up
            return self.sigma
        return self.sigma * max(0.0, 1.0 - age / self.warm)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument('--iters', default=350, type=int)
    p.add_argument('--z', default=8, type=int)
    p.add_argument('--sigma', default=0.3, type=float)
    p.add_argument('--out', default='gan-out', type=Path)
    return p.parse_args()


def main():
    opts = parse()
    torch.manual_seed(0)
    opts.out.mkdir(exist_ok=True, parents=True)
    G, D = mlp(opts.z, 2), mlp(2, 1)
    optG = optim.Adam(G.parameters(), 1e-3, betas=(0.5, 0.99))
    optD = optim.Adam(D.parameters(), 1e-3, betas=(0.5, 0.99))
    bce = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(128, 1), torch.zeros(128, 1)
    noise = Annealer(opts.sigma, warm=1.5)
    rows = []
    for it in range(opts.iters):
        s = noise.value
        real = blobs(128)
        fake = G(torch.randn(128, opts.z))
        lossD = bce(D(real + s * torch.randn(128, 2)), ones) + bce(D(fake.detach() + s * torch.randn(128, 2)), zeros)
        optD.zero_grad()
        lossD.backward()
        optD.step()

        lossG = bce(D(fake + s * torch.randn(128, 2)), ones)
        optG.zero_grad()
        lossG.backward()
        optG.step()
        if it % 25 == 0:
            rows.append([it, lossD.item(), lossG.item()])
            print('%4d D %.3f G %.3f' % tuple(rows[-1]))
    with open(opts.out / 'log.csv', 'w', newline='') as f:
        csv.writer(f).writerows([['it', 'd', 'g']] + rows)
    torch.save({'G': G.state_dict(), 'D': D.state_dict()}, opts.out / 'gan.pth')


if __name__ == '__main__':
    main()
