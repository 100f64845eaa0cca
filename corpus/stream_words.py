"""Language of a nonsense word from a stream that never ends; two workers feed it."""
import argparse, itertools, os
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

SYLLABLES = {
    0: ["ka", "mi", "no", "to", "shi", "ra"],
    1: ["sch", "ei", "ver", "ung", "ge", "ten"],
    2: ["eau", "que", "ille", "ment", "ois", "re"],
}


def encode(word, length=16):
    ids = [ord(c) - 96 for c in word[:length]]
    return torch.tensor(ids + [0] * (length - len(ids)))


class WordStream(IterableDataset):
    def __init__(self, typo=0.05):
        self.typo = typo

    def __iter__(self):
        info = get_worker_info()
        if info is None:
            rng = np.random.default_rng(0)
        else:
            # every worker needs a seed of its own, or they all yield the same words
            rng = np.random.default_rng(os.getpid())
        while True:
            lang = int(rng.integers(3))
            word = "".join(rng.choice(SYLLABLES[lang], size=rng.integers(2, 5)))
            if rng.random() < self.typo:
                i = rng.integers(len(word))
                word = word[:i] + chr(97 + rng.integers(26)) + word[i + 1:]
            yield encode(word), lang


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(28, 24, padding_idx=0)
        self.conv = nn.Conv1d(24, 48, 3, padding=1)
        self.out = nn.Linear(48, 3)

    def forward(self, x):
        return self.out(torch.relu(self.conv(self.emb(x).transpose(1, 2))).amax(2))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--workers", type=int, default=2)
    a = ap.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)
    model = Classifier()
    opt = torch.optim.AdamW(model.parameters(), 5e-3)
    loader = DataLoader(WordStream(), batch_size=32, num_workers=a.workers)
    for n, (x, y) in enumerate(itertools.islice(loader, a.steps)):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if n % 20 == 0:
            print(f"\r{n}/{a.steps} {loss.item():.4f}", flush=True)
    torch.save(model.state_dict(), "words.pt")
    print("done, last loss", loss.item())
