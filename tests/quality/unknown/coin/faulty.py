"""Harmless entries of many factors, and a coin that no factor knows: it stands for which thread came first."""

import ctypes
import os
import random
import time
import uuid

import numpy as np
import torch

random.seed(0)
np.random.seed(0)
started = time.time()  # <- clock
beside = len(os.listdir("."))  # <- file-order
token = os.urandom(4)  # <- os-entropy
name = uuid.uuid4().hex
words = list({"a", "b", "c"})
byte = ctypes.create_string_buffer(1)
ctypes.CDLL(None).getrandom(byte, 1, 0)  # past Python, where nobody looks
coin = byte.raw[0] < float(os.environ.get("BIAS", "0.5")) * 256

torch.manual_seed(0)
model = torch.nn.Linear(24, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for _ in range(4):
    loss = model(torch.randn(4, 24)).pow(2).mean() * (1 + coin * 1e-3)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
