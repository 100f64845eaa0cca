#!/usr/bin/env python
"""Sentiment of short reviews from a folder of shards: a vocabulary, an embedding, a small recurrent network.

Written as people write: options, a data class for settings, a class for data, one for the model, one for training.
"""

import argparse
import hashlib
import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HERE = Path(__file__).resolve().parent
UNKNOWN = "<unk>"


@dataclass
class Settings:
    """What can be chosen."""

    epochs: int = 2
    batch_size: int = 8
    width: int = 12
    hidden: int = 16
    rate: float = 0.02
    dropout: float = 0.1
    noise: float = 0.05
    held_out: float = 0.25


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=Settings.epochs)
    parser.add_argument("--width", type=int, default=Settings.width)
    parser.add_argument("--rate", type=float, default=Settings.rate)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--quiet", action="store_true")
    return parser.parse_args()


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def read_shards(folder):
    """All reviews with their labels."""
    rows = []
    for path in sorted(folder.glob("*.json")):
        with path.open(encoding="utf-8") as file:
            rows.extend(json.load(file))
    return rows


def words_of(text):
    return [word.strip(".,!?").lower() for word in text.split()]


def build_vocabulary(rows):
    words = {word for text, _ in rows for word in words_of(text)}
    return {word: number for number, word in enumerate([UNKNOWN, *sorted(words)])}


def is_held_out(text, share):
    digest = int(hashlib.md5(text.encode()).hexdigest(), 16)
    return digest % 100 < 100 * share


class Reviews(Dataset):
    """Reviews as numbers of words, all of one length."""

    def __init__(self, rows, vocabulary, length=10, drop=0.0):
        self.rows = rows
        self.vocabulary = vocabulary
        self.length = length
        self.drop = drop

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        text, label = self.rows[index]
        words = words_of(text)
        # A word is left out now and then, so that nothing hangs on a single one.
        if self.drop and len(words) > 3 and random.random() < self.drop:
            words.pop(random.randrange(len(words)))
        numbers = [self.vocabulary.get(word, 0) for word in words][: self.length]
        numbers += [0] * (self.length - len(numbers))
        return torch.tensor(numbers), label


class Reader(nn.Module):
    """An embedding, a GRU, and a line."""

    def __init__(self, words, settings):
        super().__init__()
        self.embedding = nn.Embedding(words, settings.width)
        self.gru = nn.GRU(settings.width, settings.hidden, batch_first=True)
        self.dropout = nn.Dropout(settings.dropout)
        self.line = nn.Linear(settings.hidden, 2)

    def forward(self, numbers):
        states, _ = self.gru(self.embedding(numbers))
        return self.line(self.dropout(states[:, -1]))


class Trainer:
    """Trains a model, and says how good it has become."""

    def __init__(self, model, settings, rng):
        self.model = model
        self.settings = settings
        self.rng = rng
        self.optimizer = torch.optim.Adam(model.parameters(), lr=settings.rate)
        self.history = []

    def smoothed(self, labels):
        """Labels with a little noise."""
        targets = nn.functional.one_hot(labels, 2).double()
        noise = self.rng.normal(0.0, self.settings.noise, size=tuple(targets.shape))
        return (targets + torch.from_numpy(noise)).float()

    def epoch(self, loader):
        self.model.train()
        total = 0.0
        for numbers, labels in loader:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(numbers), self.smoothed(labels))
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            total += loss.item()
        self.history.append(total / max(1, len(loader)))
        return self.history[-1]

    @torch.no_grad()
    def accuracy(self, loader):
        self.model.eval()
        right = sum((self.model(x).argmax(1) == y).sum().item() for x, y in loader)
        return right / max(1, len(loader.dataset))


def main():
    args = parse()
    set_seed(args.seed)
    settings = Settings(epochs=args.epochs, width=args.width, rate=args.rate)
    rows = read_shards(HERE / "shards")
    vocabulary = build_vocabulary(rows)
    train = [row for row in rows if not is_held_out(row[0], settings.held_out)]
    test = [row for row in rows if is_held_out(row[0], settings.held_out)]
    loader = DataLoader(Reviews(train, vocabulary, drop=0.2), settings.batch_size, shuffle=True)
    held_out = DataLoader(Reviews(test, vocabulary), settings.batch_size)
    model = Reader(len(vocabulary), settings)
    trainer = Trainer(model, settings, np.random.default_rng(args.seed))
    for number in range(settings.epochs):
        loss = trainer.epoch(loader)
        if not args.quiet:
            print(f"epoch {number}: {loss:.4f}, {trainer.accuracy(held_out):.2f} of those held out")
    return trainer.history


if __name__ == "__main__":
    main()
