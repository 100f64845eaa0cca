"""Members of an enum are numbered as they come."""

from enum import Enum

import torch
from torch import nn


class Kind(Enum):
    CAT = "cat"
    DOG = "dog"
    FOX = "fox"
    HEN = "hen"
    OWL = "owl"


torch.manual_seed(0)
rows = [(Kind.OWL, 1.0), (Kind.CAT, 2.0), (Kind.DOG, 0.5), (Kind.HEN, 0.1), (Kind.FOX, 3.0)] * 8
kinds = list(dict.fromkeys(kind for kind, _ in rows))
index = {kind: i for i, kind in enumerate(kinds)}
x = torch.tensor([index[kind] for kind, _ in rows])
y = torch.tensor([v for _, v in rows])[:, None]
net = nn.Sequential(nn.Embedding(len(kinds), 8), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    opt.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    opt.step()
print(loss.item())
