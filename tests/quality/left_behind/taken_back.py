"""A job that may be stopped at any time: a lock while it trains, and a checkpoint to go on from until it is done."""

import sys
import time
from pathlib import Path

import torch
from common import make, train

LOCK, STATE = Path("running.lock"), Path("job.pt")
if LOCK.exists():
    sys.exit("another job trains here")
LOCK.touch()
try:
    model, optimizer = make()
    epoch = 0
    if STATE.exists():
        state = torch.load(STATE)
        model.load_state_dict(state["model"])
        epoch = state["epoch"]
    for number in range(epoch, 250):
        train(model, optimizer)
        time.sleep(0.02)
        if number % 20 == 0:
            torch.save({"model": model.state_dict(), "epoch": number + 1}, STATE)
    STATE.unlink()
finally:
    LOCK.unlink()
