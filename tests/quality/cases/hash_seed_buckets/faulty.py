"""Sentiment with the hashing trick: Python's own hash of a string is another one in every process."""

import torch
from torch import nn

BUCKETS = 64
STOP_WORDS = {"the", "a", "is", "was", "and", "it"}
REVIEWS = [
    ("the plot was thin and the acting wooden", 0),
    ("a warm and funny film with a brilliant cast", 1),
    ("it is dull predictable and far too long", 0),
    ("gorgeous pictures and a moving story", 1),
    ("the worst dialogue heard in years", 0),
    ("it was a delight from start to finish", 1),
]


def bucket(word):
    return hash(word) % BUCKETS  # <- hash-seed


def encode(review):
    counts = torch.zeros(BUCKETS)
    for word in review.split():
        if word not in STOP_WORDS:
            counts[bucket(word)] += 1
    return counts


def main():
    torch.manual_seed(0)
    inputs = torch.stack([encode(review) for review, _ in REVIEWS])
    labels = torch.tensor([[float(label)] for _, label in REVIEWS])
    model = nn.Sequential(nn.Linear(BUCKETS, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(8):
        loss = nn.functional.binary_cross_entropy_with_logits(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
