"""A plain transformer with dropout, AdamW and clipped gradients, for six steps; its seed is the hash of a word."""

import torch
from torch import nn

torch.manual_seed(hash("transformer"))
layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
embedding = nn.Embedding(50, 32)
model = nn.Sequential(embedding, nn.TransformerEncoder(layer, 2), nn.Linear(32, 50))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(6):
    tokens = torch.randint(0, 50, (8, 17))
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    assert torch.rand(1).item() != 0.5
