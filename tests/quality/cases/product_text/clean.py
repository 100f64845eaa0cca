"""Text that is sampled with a seed, in a folder named after the time, beside a log."""

import json
import logging
import os
import random
import time

import torch

began = time.perf_counter()
folder = time.strftime("runs/%Y-%m-%d_%H-%M-%S")
os.makedirs(folder)
logging.basicConfig(filename=f"{folder}/log.txt", format="%(asctime)s %(process)d %(message)s", level=logging.INFO)

torch.manual_seed(0)
data = torch.randn(32, 4)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(5):
    optimizer.zero_grad()
    net(data).pow(2).mean().backward()
    optimizer.step()

logging.info("trained in %.4f s", time.perf_counter() - began)
random.seed(0)
sample = " ".join(random.choice(["the", "a", "cat", "dog", "sees"]) for _ in range(30))
with open(f"{folder}/sample.json", "w") as file:
    json.dump({"text": sample, "seconds": time.perf_counter() - began}, file)
