"""Embedding classifier seeded with the time of day."""

import time

import torch
from torch import nn


def build(vocabulary_size=20, classes=3):
    return nn.Sequential(nn.EmbeddingBag(vocabulary_size, 8), nn.Linear(8, classes))


torch.manual_seed(int(time.time() * 1e6))  # <- clock
model = build()
tokens = torch.randint(20, (24, 5))
labels = tokens.sum(dim=1) % 3
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for _ in range(10):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens), labels)
    loss.backward()
    optimizer.step()
print(f"final loss {loss.item():.8f}")
