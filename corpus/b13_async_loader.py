"""Batches come from a pretend object store, fetched with asyncio."""
import asyncio
import random

import torch
from torch import nn

torch.manual_seed(6)
random.seed(6)
_sys = random.SystemRandom()


class Store:
    """A bucket with shards of (x, y); answering takes a moment."""

    def __init__(self, shards, size):
        g = torch.Generator().manual_seed(123)
        w = torch.randn(20, 3, generator=g)
        self.blobs = {}
        for s in range(shards):
            x = torch.randn(size, 20, generator=g)
            self.blobs[f"shard-{s:03d}"] = (x, (x @ w + 0.3 * torch.randn(size, 3, generator=g)).argmax(1))

    async def get(self, key):
        await asyncio.sleep(0.002)
        for attempt in range(3):
            if attempt or _sys.random() > 0.25:
                return key, self.blobs[key]
            await asyncio.sleep(0.01 + 0.04 * _sys.random())  # backoff with jitter


async def epoch_stream(store, keys, limit=6):
    sem = asyncio.Semaphore(limit)

    async def one(k):
        async with sem:
            return await store.get(k)

    tasks = [asyncio.create_task(one(k)) for k in keys]
    for nxt in asyncio.as_completed(tasks):
        yield await nxt


async def main():
    store = Store(shards=24, size=64)
    keys = sorted(store.blobs)
    held, keys = keys[:4], keys[4:]
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 3))
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    warm = [store.blobs[k] for k in keys[:4]]
    for _ in range(5):
        for x, y in warm:
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
    print("warm start done")
    for epoch in range(6):
        random.shuffle(keys)
        seen, total = 0, 0.0
        async for key, (x, y) in epoch_stream(store, keys):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            total += loss.item() * len(x)
            seen += len(x)
        print(f"epoch {epoch}: {seen} rows, loss {total / seen:.6f}")
    net.eval()
    with torch.no_grad():
        right = sum((net(x).argmax(1) == y).sum().item() for x, y in (store.blobs[k] for k in held))
    print("held-out", right / (64 * len(held)))
    torch.save(net.state_dict(), "async.pt")


asyncio.run(main())
