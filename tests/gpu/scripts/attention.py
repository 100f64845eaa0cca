"""A small language model in bfloat16, with PyTorch's fused attention."""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(3)
device = torch.device("cuda")


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # <- torch-algorithms
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.second(x))


class Model(nn.Module):
    def __init__(self, words=128, width=256, heads=4, length=1024):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(2))
        self.last = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.last(x)


model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
text = torch.randint(0, 128, (64, 1025)).to(device)
for step in range(12):
    batch = text[torch.randint(0, 64, (8,)).to(device)]
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss {loss.item():.5f}")
torch.save(model.state_dict(), "lm.pt")
