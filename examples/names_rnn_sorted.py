"""names_rnn.py with its classes sorted: it repeats on this machine; does it on a colleague's?"""

import os
import random

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, TensorDataset, random_split

NAMES = os.path.join(os.path.dirname(__file__), "names")

random.seed(0)
np.random.seed(0)
torch.manual_seed(0)

names, labels = [], []
for file in os.listdir(NAMES):
    with open(os.path.join(NAMES, file), encoding="utf-8") as lines:
        for line in lines:
            names.append(line.strip().lower())
            labels.append(file.removesuffix(".txt"))

languages = sorted(set(labels))
letters = sorted(set("".join(names)))
inputs = pad_sequence(
    [torch.tensor([1 + letters.index(letter) for letter in name]) for name in names],
    batch_first=True,
    padding_side="left",
)
targets = torch.tensor([languages.index(label) for label in labels])


class RNN(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(1 + len(letters), width, padding_idx=0)
        self.read = nn.GRU(width, width, batch_first=True)
        self.decide = nn.Linear(width, len(languages))

    def forward(self, batch):
        _, hidden = self.read(self.embed(batch))
        return self.decide(hidden[-1])


train, test = random_split(TensorDataset(inputs, targets), [288, 48])
rnn = RNN()
optimizer = torch.optim.Adam(rnn.parameters(), lr=0.005)

for _ in range(10):  # epochs of 12 steps
    for batch, answers in DataLoader(train, batch_size=24, shuffle=True):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(rnn(batch), answers)
        loss.backward()
        optimizer.step()

batch, answers = test[:]
accuracy = (rnn(batch).argmax(1) == answers).float().mean()
print(f"loss {loss.item():.6f}, accuracy on 48 held-out names {accuracy.item():.3f}")
