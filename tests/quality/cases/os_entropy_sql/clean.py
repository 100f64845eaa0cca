"""Users and items lie in SQLite, and Python draws what each user has not clicked."""

import random
import sqlite3

import torch

database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE item (id INTEGER PRIMARY KEY)")
database.executemany("INSERT INTO item VALUES (?)", [(item,) for item in range(50)])
torch.manual_seed(0)
chosen = random.Random(0)
table = torch.nn.Embedding(50, 4)
optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
for step in range(5):
    rows = database.execute("SELECT id FROM item WHERE id != ? ORDER BY id", (step,)).fetchall()
    drawn = torch.tensor([item for (item,) in chosen.sample(rows, 8)])
    optimizer.zero_grad()
    table(drawn).square().mean().backward()
    optimizer.step()
