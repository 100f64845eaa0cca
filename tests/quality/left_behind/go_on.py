"""Goes on where an earlier run has stopped: nothing is left to do for the next but one."""

from pathlib import Path

import torch
from common import make, train

STATE = Path("state.pt")
model, optimizer = make()
epoch = 0
if STATE.exists():
    state = torch.load(STATE)  # <- files-left-behind
    model.load_state_dict(state["model"])
    epoch = state["epoch"]
while epoch < 2:
    train(model, optimizer)
    epoch += 1
    torch.save({"model": model.state_dict(), "epoch": epoch}, STATE)
