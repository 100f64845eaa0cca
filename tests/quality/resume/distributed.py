"""Saves and resumes by torch.distributed.checkpoint, in the way of PyTorch's tutorial: the states are asked for first.

Asking for the state of a new optimizer makes it take a step without gradients, which is undone by what is loaded.
"""

import os
import shutil

import torch
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

PATH, STEPS = "last", 24
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
first = 0


def all_of_it() -> dict[str, object]:
    weights, moments = get_state_dict(model, optimizer)
    return {"model": weights, "optimizer": moments, "step": first, "generator": torch.get_rng_state()}


if os.path.exists(f"{PATH}/.metadata"):
    state = all_of_it()
    checkpoint.load(state, checkpoint_id=PATH)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    torch.set_rng_state(state["generator"])
    first = state["step"]

for step in range(first, STEPS):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
    if step % 5 == 4:
        checkpoint.save({**all_of_it(), "step": step + 1}, checkpoint_id="new")
        shutil.rmtree(PATH, ignore_errors=True)
        os.rename("new", PATH)
