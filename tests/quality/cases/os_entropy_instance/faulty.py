"""Language model on a toy text: crops are chosen by a `random.Random` of its own, made without a seed."""

import random

import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog while the five boxing wizards jump quickly " * 4
ALPHABET = sorted(set(TEXT))


class Crops:
    """Endless batches of (characters, next characters)."""

    def __init__(self, text, length, batch_size):
        self.codes = torch.tensor([ALPHABET.index(character) for character in text])
        self.length, self.batch_size = length, batch_size
        self.random = random.Random()  # <- os-entropy

    def __iter__(self):
        while True:
            starts = [self.random.randrange(len(self.codes) - self.length) for _ in range(self.batch_size)]
            crops = torch.stack([self.codes[start : start + self.length + 1] for start in starts])
            yield crops[:, :-1], crops[:, 1:]


class CharacterModel(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, len(ALPHABET))

    def forward(self, codes):
        return self.head(self.rnn(self.embed(codes))[0])


torch.manual_seed(3)
model = CharacterModel()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _, (inputs, targets) in zip(range(8), Crops(TEXT, length=16, batch_size=4), strict=False):
    loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(loss.item())
