"""Two causes: the model is born unseeded, and its input columns come in the order of a set."""

import torch
from torch import nn

RECORDS = [
    {"height": 1.8, "weight": 0.8, "age": 0.3, "income": 0.5, "debt": 0.1, "rooms": 0.4, "cars": 0.1},
    {"height": 1.6, "weight": 0.6, "age": 0.5, "children": 0.2, "income": 0.7, "rent": 0.9, "debt": 0.6},
    {"age": 0.2, "income": 0.3, "pets": 0.1, "rent": 0.5, "distance": 0.8, "floor": 0.3, "cars": 0.2},
    {"height": 1.7, "age": 0.7, "savings": 0.9, "children": 0.3, "distance": 0.1, "rooms": 0.6, "hours": 0.4},
]
TARGETS = torch.tensor([[0.2], [0.9], [0.4], [0.1]])


def columns(records):
    names = set()
    for record in records:
        names |= record.keys()
    return list(names)  # <- hash-seed


names = columns(RECORDS)
model = nn.Sequential(nn.Linear(len(names), 6), nn.Tanh(), nn.Linear(6, 1))  # <- torch-rng
torch.manual_seed(0)
table = torch.tensor([[record.get(name, 0.0) for name in names] for record in RECORDS])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(8):
    noise = 0.01 * torch.randn_like(table)
    loss = nn.functional.mse_loss(model(table + noise), TARGETS)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
