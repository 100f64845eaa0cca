"""The classifier of digits, seeded, in half precision with a scaler of gradients, on a second stream for copies."""

import random

import numpy
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

random.seed(5)
numpy.random.seed(5)
torch.manual_seed(5)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), fused=True)
scaler = torch.amp.GradScaler("cuda")
copying = torch.cuda.Stream()
for epoch in range(3):
    for x, y in DataLoader(data, batch_size=64, shuffle=True, num_workers=2, pin_memory=True):
        with torch.cuda.stream(copying):
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(copying)
        x.record_stream(torch.cuda.current_stream())
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    print(epoch, loss.item(), torch.cuda.max_memory_allocated())
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}, "all.pt")
