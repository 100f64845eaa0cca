import argparse
import random

import torch
import torch.nn as nn
import torch.optim as optim

# Reverse a string of letters. GRU encoder, GRU decoder, teacher forcing with decay.

SOS, LETTERS = 0, 12


class Encoder(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.emb = nn.Embedding(LETTERS + 1, h)
        self.gru = nn.GRU(h, h, batch_first=True)

    def forward(self, x):
        return self.gru(self.emb(x))[1]


class Decoder(nn.Module):
    def __init__(self, h):
        super().__init__()
        self.emb = nn.Embedding(LETTERS + 1, h)
        self.gru = nn.GRU(h, h, batch_first=True)
        self.out = nn.Linear(h, LETTERS + 1)

    def step(self, tok, hid):
        o, hid = self.gru(self.emb(tok), hid)
        return self.out(o), hid


def batch(gen, n, length):
    src = torch.randint(1, LETTERS + 1, (n, length), generator=gen)
    return src, src.flip(1)


def decode(dec, hid, tgt, ratio):
    tok = torch.full((len(tgt), 1), SOS)
    outs = []
    for t in range(tgt.shape[1]):
        logit, hid = dec.step(tok, hid)
        outs.append(logit)
        force = ratio > 0 and random.random() < ratio
        tok = tgt[:, t:t + 1] if force else logit.argmax(-1).detach()
    return torch.cat(outs, 1)


def ratio_at(step, warm):
    return 1.0 if step < warm else max(0.0, 1.0 - (step - warm) / 150)


def main():
    parser = argparse.ArgumentParser(description="seq2seq toy")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--steps", type=int, default=170)
    parser.add_argument("--hidden", type=int, default=48)
    parser.add_argument("--warm", type=int, default=40)
    args = parser.parse_args()

    random.seed(args.seed)
    torch.manual_seed(args.seed or 0)
    gen = torch.Generator().manual_seed(args.seed or 0)

    enc, dec = Encoder(args.hidden), Decoder(args.hidden)
    opt = optim.Adam([*enc.parameters(), *dec.parameters()], lr=4e-3)
    lossf = nn.CrossEntropyLoss()
    for step in range(args.steps):
        src, tgt = batch(gen, 48, 6)
        logits = decode(dec, enc(src), tgt, ratio_at(step, args.warm))
        loss = lossf(logits.reshape(-1, LETTERS + 1), tgt.reshape(-1))
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(enc.parameters(), 1.0)
        opt.step()
        if step % 40 == 0 or step == args.steps - 1:
            print("step", step, "tf", round(ratio_at(step, args.warm), 2), "loss", loss.item())

    src, tgt = batch(gen, 200, 6)
    with torch.no_grad():
        pred = decode(dec, enc(src), tgt, 0.0).argmax(-1)
    print("exact match", (pred == tgt).all(1).float().mean().item())
    torch.save({"enc": enc.state_dict(), "dec": dec.state_dict()}, "seq2seq.pt")


if __name__ == "__main__":
    main()
