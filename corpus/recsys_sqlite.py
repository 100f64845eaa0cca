"""Matrix factorisation with BPR loss; interactions live in SQLite, negatives are drawn there."""
import logging
import sqlite3

import numpy as np
import torch
from torch import nn

log = logging.getLogger(__name__)
USERS, ITEMS, DIM = 80, 120, 16


class Store:
    def __init__(self, path=":memory:"):
        self.db = sqlite3.connect(path)
        self.db.executescript("""
            CREATE TABLE item (id INTEGER PRIMARY KEY, title TEXT);
            CREATE TABLE click (user INTEGER, item INTEGER, PRIMARY KEY (user, item));
        """)

    def fill(self, rng):
        self.db.executemany("INSERT INTO item VALUES (?, ?)", [(i, f"item {i}") for i in range(ITEMS)])
        taste_u, taste_i = rng.normal(size=(USERS, 3)), rng.normal(size=(ITEMS, 3))
        score = taste_u @ taste_i.T
        for u in range(USERS):
            for i in np.argsort(-score[u])[:12]:
                self.db.execute("INSERT INTO click VALUES (?, ?)", (u, int(i)))
        self.db.commit()

    def clicks(self):
        return self.db.execute("SELECT user, item FROM click ORDER BY user, item").fetchall()

    def popular(self, n):
        rows = self.db.execute("SELECT item FROM click GROUP BY item ORDER BY count(*) DESC, item LIMIT ?", (n,))
        return [i for (i,) in rows]

    def negatives(self, user, n):
        rows = self.db.execute(
            "SELECT id FROM item WHERE id NOT IN (SELECT item FROM click WHERE user = ?) ORDER BY RANDOM() LIMIT ?",
            (user, n),
        )
        return [i for (i,) in rows]


class BPR(nn.Module):
    def __init__(self):
        super().__init__()
        self.u, self.i = nn.Embedding(USERS, DIM), nn.Embedding(ITEMS, DIM)
        nn.init.normal_(self.u.weight, std=0.1)
        nn.init.normal_(self.i.weight, std=0.1)

    def forward(self, u, pos, neg):
        d = (self.u(u) * (self.i(pos) - self.i(neg))).sum(1)
        return -nn.functional.logsigmoid(d).mean()


def epoch_pairs(store, clicks, order, hard):
    popular = store.popular(30)
    for n, k in enumerate(order):
        u, i = clicks[k]
        # the first pass is easy: something popular; later on anything that the user has not clicked
        yield u, i, (store.negatives(u, 1)[0] if hard else popular[n % len(popular)])


def main():
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    rng = np.random.default_rng(3)
    torch.manual_seed(3)
    store = Store()
    store.fill(rng)
    clicks, model = store.clicks(), BPR()
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(6):
        pairs = torch.tensor(list(epoch_pairs(store, clicks, rng.permutation(len(clicks)), hard=epoch > 0)))
        for u, p, n in (b.T for b in pairs.split(64)):
            loss = model(u, p, n)
            opt.zero_grad()
            loss.backward()
            opt.step()
        log.info("epoch %d loss %.5f", epoch, loss.item())
    np.savez("factors.npz", users=model.u.weight.detach().numpy(), items=model.i.weight.detach().numpy())


if __name__ == "__main__":
    main()
