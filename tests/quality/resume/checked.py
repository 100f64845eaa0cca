"""Validates fresh weights before it loads a checkpoint, by a Training and a loader of samebits', and primes a step."""

import copy

import torch

import samebits
from samebits.state import Training

torch.manual_seed(0)
data = [torch.randn(4) for _ in range(48)]
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.1), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
loader = samebits.data.DataLoader(data, batch_size=4, shuffle=True, seed=0)
training = Training(model=model, optimizer=optimizer, loader=loader)


def train(batch: torch.Tensor) -> None:
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()


with samebits.state.preserved(model), torch.no_grad():
    model.eval()
    model(torch.stack(data))
step = training.resume("checkpoints") or 0
before = copy.deepcopy(training.state_dict())
train(torch.ones(4, 4))
training.load_state_dict(before)
for _ in range(loader.state_dict()["epoch"], 3):
    for batch in loader:
        train(batch)
        step += 1
        if step % 5 == 0:
            training.save("checkpoints", step, gradients=False)
