"""A trainer that reads the clock for its log, for the name of its checkpoint, and for one thing too many."""

import time
from datetime import datetime

import torch
from torch import nn


class Trainer:
    def __init__(self, model, lr=0.05):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.started = time.time()

    def log(self, step, loss):
        print(f"[{datetime.now():%H:%M:%S}] step {step} after {time.time() - self.started:.3f} s: loss {loss:.4f}")

    def noisy(self, x):
        generator = torch.Generator().manual_seed(time.time_ns())  # <- clock
        return x + 0.01 * torch.randn(x.shape, generator=generator)

    def fit(self, x, y, steps):
        for step in range(steps):
            began = time.time_ns()
            loss = nn.functional.mse_loss(self.model(self.noisy(x)), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.log(step, loss.item())
            print("step took", time.time_ns() - began, "ns")

    def save(self):
        torch.save({"model": self.model.state_dict(), "time": time.time()}, f"{datetime.now():%Y%m%d-%H%M%S}.pt")


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(32, 5)
    trainer = Trainer(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1)))
    trainer.fit(x, x.mean(dim=1, keepdim=True), steps=8)
    trainer.save()
