"""A trainer with states that are as they were at first for long, so that an early kill shows nothing.

Without `--defect` it resumes with the same bits; with one, it lacks what that names.
"""

import argparse
import copy
import os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--defect", default="")
args = parser.parse_args()
PATH, EPOCHS, STEPS = "trainer.pt", 12, 4

torch.manual_seed(0)
body, head = nn.Linear(6, 6), nn.Linear(6, 1)
model = nn.Sequential(body, nn.Tanh(), head)
body.requires_grad_(False)
optimizer = torch.optim.SGD(head.parameters(), lr=0.2, momentum=0.9)
average = {name: value.clone() for name, value in model.state_dict().items()}
best, best_loss, bad, level, first = copy.deepcopy(model.state_dict()), float("inf"), 0, 0.1, 0


def unfreeze() -> None:
    body.requires_grad_(True)
    optimizer.add_param_group({"params": body.parameters(), "lr": 0.05})


if os.path.exists(PATH):
    state = torch.load(PATH, weights_only=True)
    first = state["epoch"]
    model.load_state_dict(state["best" if args.defect == "best" else "model"])
    if first >= 6 and args.defect != "group":
        if args.defect != "unfreezing":
            unfreeze()
        else:
            optimizer.add_param_group({"params": body.parameters(), "lr": 0.05})
    optimizer.load_state_dict(state["optimizer"])
    best, best_loss = state["best"], state["best_loss"]
    if args.defect != "plateau":
        bad = state["bad"]
    if args.defect != "curriculum":
        level = state["level"]
    average = state.get("average", average)
    torch.set_rng_state(state["generator"])

for epoch in range(first, EPOCHS):
    if epoch == 6:
        unfreeze()
    total = 0.0
    for _ in range(STEPS):
        data = torch.randn(16, 6)
        loss = (model(data) - data.sum(1, keepdim=True).sin() * level).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        for name, value in model.state_dict().items():
            average[name] = average[name] * 0.9 + value * 0.1
    if total < best_loss:
        best, best_loss, bad = copy.deepcopy(model.state_dict()), total, 0
    else:
        bad += 1
    if bad == 3:  # nothing was better for three epochs
        bad = 0
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
    if epoch % 4 == 3:
        level += 0.3
    state = {
        "model": model.state_dict(),
        "best": best,
        "best_loss": best_loss,
        "optimizer": optimizer.state_dict(),
        "bad": bad,
        "level": level,
        **({} if args.defect == "average" else {"average": average}),
        "epoch": epoch + 1,
        "generator": torch.get_rng_state(),
    }
    torch.save(state, f"{PATH}.new")
    os.replace(f"{PATH}.new", PATH)
torch.save(average, "average.pt")
