"""Threads prepare batches, and training takes them from a queue by their numbers."""

import queue
import threading

import torch

torch.manual_seed(0)
numbers, ready = queue.Queue(), queue.Queue(maxsize=4)


def prepare():
    while (number := numbers.get()) is not None:
        generator = torch.Generator().manual_seed(number)
        inputs = torch.randn(16, 8, generator=generator)
        threading.Event().wait(0.002)
        ready.put((number, inputs))


for _ in range(3):
    threading.Thread(target=prepare, daemon=True).start()
for number in range(16):
    numbers.put(number)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
held = {}
for number in range(16):
    while number not in held:
        held.update([ready.get()])
    inputs = held.pop(number)
    optimizer.zero_grad()
    (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
torch.save(model.state_dict(), "model.pt")
