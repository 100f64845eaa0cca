"""Makes a step that is undone before anything counts, as for buckets and buffers, and warms up from a rate of zero.

The step comes before the checkpoint is loaded, after that (`--after`), or not at all (`--never`). Without `--defect` it
resumes with the same bits; with one, it lacks one state.
"""

import argparse
import copy
import os

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--defect", default="")
parser.add_argument("--after", action="store_true")
parser.add_argument("--never", action="store_true")
args = parser.parse_args()
PATH, STEPS, EVERY = "primed.pt", 40, 5

torch.manual_seed(0)
data = torch.randn(STEPS, 8, 4)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 10))
first, noise = 0, 0.0


def train(batch: torch.Tensor) -> None:
    optimizer.zero_grad()
    (model(batch + noise).square().mean()).backward()
    optimizer.step()


def prime() -> None:
    parts = [copy.deepcopy(part.state_dict()) for part in (model, optimizer, scheduler)]
    generators = torch.get_rng_state()
    optimizer.param_groups[0]["lr"] = 0.1
    for batch in torch.ones(3, 8, 4):
        train(batch)
    for part, state in zip((model, optimizer, scheduler), parts, strict=True):
        part.load_state_dict(state)
    torch.set_rng_state(generators)


if not (args.after or args.never):
    prime()
if os.path.exists(PATH) and args.defect != "not-resumed":
    state = torch.load(PATH, weights_only=True)
    model.load_state_dict(state["model"])
    scheduler.load_state_dict(state["scheduler"])
    if args.defect != "optimizer":
        optimizer.load_state_dict(state["optimizer"])
    else:
        optimizer.param_groups[0]["lr"] = state["optimizer"]["param_groups"][0]["lr"]
    if args.defect != "generators":
        torch.set_rng_state(state["generators"])
    if args.defect != "counter":
        noise = state["noise"]
    first = state["step"]
if args.after:
    prime()

for step in range(first, STEPS):
    train(data[step])
    scheduler.step()
    noise += 0.01
    if (step + 1) % EVERY == 0:
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "generators": torch.get_rng_state(),
            "noise": noise,
            "step": step + 1,
        }
        torch.save(state, f"{PATH}.new")
        os.replace(f"{PATH}.new", PATH)
