"""Values are taken in the order in which they were asked for."""

import asyncio
import threading

import torch


async def fetch(number):
    await asyncio.to_thread(threading.Event().wait, 0.02)
    return number


async def fetched():
    jobs = [asyncio.ensure_future(fetch(number)) for number in range(8)]
    return list(await asyncio.gather(*jobs))


order = asyncio.run(fetched())
values = torch.tensor(order, dtype=torch.float32)
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    model(values).sum().backward()
    optimizer.step()
