"""Ticket router: which desk gets a message? Reads tickets.csv (written when missing)."""
import csv
import json
import os
import random

import torch
from torch import nn

WORDS = {
    "billing": "invoice refund charge card payment price receipt overdue".split(),
    "network": "router wifi cable signal outage latency dns ping".split(),
    "account": "password login email locked reset profile username signup".split(),
    "hardware": "screen battery keyboard broken fan noise charger hinge".split(),
}
FILLER = "please help my the is again since yesterday cannot with very not it".split()


def write_tickets(path, n=1200):
    rng = random.Random(4)
    with open(path, "w", newline="") as f:
        w = csv.DictWriter(f, ["id", "desk", "text"])
        w.writeheader()
        for i in range(n):
            desk = rng.choice(sorted(WORDS))
            text = rng.choices(WORDS[desk], k=2) + rng.choices(FILLER, k=5) + rng.choices(WORDS[rng.choice(sorted(WORDS))], k=1)
            rng.shuffle(text)
            w.writerow({"id": f"T{i:05d}", "desk": desk, "text": " ".join(text)})


def bucket(ticket_id, parts=5):
    return hash(ticket_id) % parts


class Bag(nn.Module):
    def __init__(self, vocab, classes):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, 24, mode="mean")
        self.fc = nn.Linear(24, classes)

    def forward(self, flat, offsets):
        return self.fc(self.emb(flat, offsets))


def encode(rows, vocab, desks):
    flat, offsets, labels = [], [], []
    for r in rows:
        offsets.append(len(flat))
        flat += [vocab[t] for t in r["text"].split()]
        labels.append(desks.index(r["desk"]))
    return torch.tensor(flat), torch.tensor(offsets), torch.tensor(labels)


def main(path="tickets.csv"):
    torch.manual_seed(12)
    random.seed(12)
    if not os.path.exists(path):
        write_tickets(path)
    with open(path, newline="") as f:
        rows = list(csv.DictReader(f))
    desks = list({r["desk"] for r in rows})
    vocab = {w: i for i, w in enumerate(sorted({w for r in rows for w in r["text"].split()}))}
    train = [r for r in rows if bucket(r["id"]) != 0]
    test = [r for r in rows if bucket(r["id"]) == 0]
    net = Bag(len(vocab), len(desks))
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for epoch in range(6):
        random.shuffle(train)
        for i in range(0, len(train), 40):
            flat, off, lab = encode(train[i:i + 40], vocab, desks)
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(flat, off), lab)
            loss.backward()
            opt.step()
        flat, off, lab = encode(test, vocab, desks)
        with torch.no_grad():
            acc = (net(flat, off).argmax(1) == lab).float().mean().item()
        print(f"epoch {epoch} | loss {loss.item():.5f} | test acc {acc:.4f}")
    with open("router.json", "w") as f:
        json.dump({"desks": desks, "acc": acc, "n_test": len(test), "bias": net.fc.bias.tolist()}, f, indent=2)


if __name__ == "__main__":
    main()
