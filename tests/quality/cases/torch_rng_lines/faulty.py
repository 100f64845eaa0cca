"""A deep model written over twenty lines, and no seed: one fix for all of them."""

import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(4, 4)  # <- torch-rng
        self.l2 = nn.Linear(4, 4)  # <- with torch-rng
        self.l3 = nn.Linear(4, 4)  # <- with torch-rng
        self.l4 = nn.Linear(4, 4)  # <- with torch-rng
        self.l5 = nn.Linear(4, 4)  # <- with torch-rng
        self.l6 = nn.Linear(4, 4)  # <- with torch-rng
        self.l7 = nn.Linear(4, 4)  # <- with torch-rng
        self.l8 = nn.Linear(4, 4)  # <- with torch-rng
        self.l9 = nn.Linear(4, 4)  # <- with torch-rng
        self.l10 = nn.Linear(4, 4)  # <- with torch-rng
        self.l11 = nn.Linear(4, 4)  # <- with torch-rng
        self.l12 = nn.Linear(4, 4)  # <- with torch-rng
        self.l13 = nn.Linear(4, 4)  # <- with torch-rng
        self.l14 = nn.Linear(4, 4)  # <- with torch-rng
        self.l15 = nn.Linear(4, 4)  # <- with torch-rng
        self.l16 = nn.Linear(4, 4)  # <- with torch-rng
        self.l17 = nn.Linear(4, 4)  # <- with torch-rng
        self.l18 = nn.Linear(4, 4)  # <- with torch-rng
        self.l19 = nn.Linear(4, 4)  # <- with torch-rng
        self.l20 = nn.Linear(4, 4)  # <- with torch-rng

    def forward(self, x):
        for layer in self.children():
            x = torch.tanh(layer(x))
        return x


model = Deep()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.linspace(-1, 1, 32).reshape(8, 4)
for _ in range(4):
    optimizer.zero_grad()
    loss = (model(x) - x).pow(2).mean()
    loss.backward()
    optimizer.step()
print(loss.item())
