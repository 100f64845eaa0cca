"""A model that is also differentiated by torch.func, between the steps of its optimizer."""

import torch
from torch import nn
from torch.func import functional_call, grad


def loss_of(params, model, x):
    return functional_call(model, params, (x,)).pow(2).mean()


model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(6):
    x = torch.randn(6, 4)
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    optimizer.step()
    params = {name: p.detach() for name, p in model.named_parameters()}
    found = grad(loss_of)(params, model, x)
    with torch.no_grad():
        model[0].weight -= found["0.weight"]
