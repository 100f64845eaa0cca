"""A skip-gram model whose counts are gathered on the device by `scatter_add`."""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(2)
words, width = 500, 32
tokens = (torch.rand(20_000).pow(3) * words).long().cuda()

model = nn.ModuleDict({"inner": nn.Embedding(words, width), "outer": nn.Linear(width, words)}).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
seen = torch.zeros(words, device="cuda")
for _step in range(40):
    at = torch.randint(0, len(tokens) - 1, (4096,)).cuda()
    logits = model["outer"](model["inner"](tokens[at]))
    weights = torch.rand(4096).cuda()
    losses = functional.cross_entropy(logits, tokens[at + 1], reduction="none") * weights
    seen.scatter_add_(0, tokens[at], losses.detach())  # <- torch-algorithms
    loss = (losses * (1 + seen[tokens[at]]).rsqrt()).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
torch.save(model.state_dict(), "skipgram.pt")
