"""Topic model over a small corpus: the words get their ids in the order of the sorted file names."""

import glob
import os

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


def read_corpus(pattern):
    texts = {}
    for path in sorted(glob.glob(pattern)):
        with open(path, encoding="utf-8") as file:
            texts[os.path.basename(path)] = file.read().split()
    return texts


def main():
    torch.manual_seed(0)
    texts = read_corpus(os.path.join(HERE, "corpus", "*.txt"))
    vocabulary = {}
    for words in texts.values():
        for word in words:
            vocabulary.setdefault(word, len(vocabulary))
    topics = list(texts)

    embedding = nn.Embedding(len(vocabulary), 8)
    output = nn.Linear(8, len(topics))
    optimizer = torch.optim.Adam(list(embedding.parameters()) + list(output.parameters()), lr=0.05)
    for step in range(10):
        topic = topics[step % len(topics)]
        words = torch.tensor([vocabulary[word] for word in texts[topic]])
        logits = output(embedding(words).mean(dim=0, keepdim=True))
        loss = nn.functional.cross_entropy(logits, torch.tensor([topics.index(topic)]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
