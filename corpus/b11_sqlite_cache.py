"""House prices (generated). The rows are kept in a sqlite file, made on first use."""
import json
import math
import os
import random
import sqlite3
import uuid
from contextlib import closing

import torch
from torch import nn

DB = "cache/houses.db"


def invent(n, rng):
    for _ in range(n):
        area, rooms, age = rng.uniform(30, 220), rng.randint(1, 7), rng.uniform(0, 90)
        price = 1.9 * area + 14 * rooms - 0.8 * age + 40 * math.sin(area / 25) + rng.gauss(0, 12)
        yield area, rooms, age, price


def build():
    os.makedirs(os.path.dirname(DB), exist_ok=True)
    rng = random.Random(8)
    with closing(sqlite3.connect(DB)) as con:
        con.execute("create table house (id text primary key, area real, rooms int, age real, price real) without rowid")
        con.executemany("insert into house values (?,?,?,?,?)", ((uuid.uuid4().hex, *row) for row in invent(1500, rng)))
        con.commit()


def rows(where="1=1"):
    if not os.path.exists(DB):
        build()
    with closing(sqlite3.connect(DB)) as con:
        return con.execute(f"select area, rooms, age, price from house where {where} order by id").fetchall()


def tensors(table):
    t = torch.tensor(table, dtype=torch.float32)
    return t[:, :3], t[:, 3:]


class Standard:
    def __init__(self, t):
        self.m, self.s = t.mean(0), t.std(0)

    def __call__(self, t):
        return (t - self.m) / self.s


def main():
    torch.manual_seed(17)
    x, y = tensors(rows())
    n = int(0.8 * len(x))
    sx, sy = Standard(x[:n]), Standard(y[:n])
    x, y = sx(x), sy(y)
    net = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 1e-2, total_steps=12 * math.ceil(n / 50))
    losses = []
    for epoch in range(12):
        perm = torch.randperm(n)
        for b in perm.split(50):
            loss = nn.functional.mse_loss(net(x[b]), y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
        with torch.no_grad():
            val = nn.functional.mse_loss(net(x[n:]), y[n:]).item()
        losses.append(val)
        print("epoch {:2d} | train {:.4f} | val {:.4f}".format(epoch, loss.item(), val))
    with open("losses.json", "w") as f:
        json.dump(losses, f)


if __name__ == "__main__":
    main()
