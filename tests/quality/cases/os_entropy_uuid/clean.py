"""bf16 training: the run has a random id, but its seed is derived from the name of the experiment."""

import hashlib
import uuid

import torch
from torch import nn


class Run:
    def __init__(self, experiment):
        self.id = str(uuid.uuid4())
        self.seed = int.from_bytes(hashlib.sha256(experiment.encode()).digest()[:4], "big")

    def train(self, steps=10):
        torch.manual_seed(self.seed)
        model = nn.Sequential(nn.Linear(8, 32), nn.SiLU(), nn.Linear(32, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(steps):
            x = torch.randn(16, 8)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                prediction = model(x)
                loss = nn.functional.mse_loss(prediction.float(), x.norm(dim=1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.item()


if __name__ == "__main__":
    run = Run("norm-regression")
    print(run.id, run.train())
