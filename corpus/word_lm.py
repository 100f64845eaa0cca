# word level LSTM language model on a little grammar
import collections
import math
import random
import torch
import torch.nn as nn

random.seed(1111)
torch.manual_seed(1111)

SUBJECTS = "the cat|the old dog|a child|my neighbour|the captain|nobody|every student|the machine".split("|")
VERBS = "sees|likes|eats|draws|forgets|builds|hears|follows".split("|")
OBJECTS = "a house|the sea|bread|two letters|an old song|the red bicycle|nothing|a long road".split("|")
ENDS = "today|in the morning|again|without a word|near the river|by night".split("|")


def sentence():
    return " ".join(random.choice(part) for part in (SUBJECTS, VERBS, OBJECTS, ENDS)).split() + ["<eos>"]


class Corpus:
    def __init__(self, n_train, n_valid):
        self.train_words = [w for _ in range(n_train) for w in sentence()]
        self.valid_words = [w for _ in range(n_valid) for w in sentence()]
        counts = collections.Counter(self.train_words)
        vocab = set(w for w, c in counts.items() if c > 1) | {"<unk>"}
        self.stoi = {w: i for i, w in enumerate(vocab)}
        self.train, self.valid = self.encode(self.train_words), self.encode(self.valid_words)

    def encode(self, words):
        return torch.tensor([self.stoi.get(w, self.stoi["<unk>"]) for w in words])


def batchify(ids, bsz):
    n = len(ids) // bsz
    return ids[: n * bsz].view(bsz, n).t().contiguous()


class LM(nn.Module):
    def __init__(self, vocab, d=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.rnn = nn.LSTM(d, d)
        self.dec = nn.Linear(d, vocab)
        self.dec.weight = self.emb.weight

    def forward(self, x, h=None):
        o, h = self.rnn(self.emb(x), h)
        return self.dec(o), h


corpus = Corpus(1200, 100)
train, valid = batchify(corpus.train, 16), batchify(corpus.valid, 8)
V = len(corpus.stoi)
model = LM(V)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
BPTT = 20
print(f"{V} words, {train.numel()} tokens")
for epoch in range(1, 4):
    model.train()
    h, total = None, 0.0
    steps = range(0, len(train) - 1, BPTT)
    for i in steps:
        n = min(BPTT, len(train) - 1 - i)
        h = tuple(t.detach() for t in h) if h else None
        out, h = model(train[i:i + n], h)
        loss = nn.functional.cross_entropy(out.flatten(0, 1), train[i + 1:i + 1 + n].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        opt.step()
        total += loss.item()
    model.eval()
    with torch.no_grad():
        out, _ = model(valid[:-1])
        v = nn.functional.cross_entropy(out.flatten(0, 1), valid[1:].flatten()).item()
    print(f"| epoch {epoch} | train ppl {math.exp(total / len(steps)):9.5f} | valid ppl {math.exp(v):9.5f} |")
torch.save({"model": model.state_dict(), "stoi": corpus.stoi}, "lm.pt")
