"""A population lives in a list, and each of its members draws its batches when its turn comes."""

import torch
from torch import nn


class Individual:
    def __init__(self, rate):
        self.rate = rate
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def train(self, x, y):
        optimizer = torch.optim.SGD(self.net.parameters(), lr=self.rate)
        for batch in torch.randperm(64).split(16):
            optimizer.zero_grad()
            (self.net(x[batch]) - y[batch]).square().mean().backward()
            optimizer.step()


torch.manual_seed(0)
x = torch.randn(64, 4)
y = x[:, :1] * x[:, 1:2]
rates = [0.01 * (1 + number) for number in range(8)]
alive = list(map(Individual, rates))
for _generation in range(3):
    for one in alive:
        one.train(x, y)
