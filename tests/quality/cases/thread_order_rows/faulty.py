"""Values are taken in the order in which threads append them."""

import threading

import torch

order = []


def fetch(number):
    threading.Event().wait(0.02)
    order.append(number)


threads = [threading.Thread(target=fetch, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()  # <- thread-order
for thread in threads:
    thread.join()
values = torch.tensor(order, dtype=torch.float32)
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    model(values).sum().backward()
    optimizer.step()
