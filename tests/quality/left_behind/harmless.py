"""Writes what others write, and is not moved by what earlier runs left."""

import argparse
import os
from pathlib import Path

import torch
from common import make, train

parser = argparse.ArgumentParser()
parser.add_argument("--out", default="out")
out = Path(parser.parse_args().out)

out.mkdir(exist_ok=True)
number = 1
while os.path.exists(out / str(number)):
    number += 1
os.makedirs(out / str(number))
model, optimizer = make()
train(model, optimizer)
torch.save(model.state_dict(), out / "last.pt")
model.load_state_dict(torch.load(out / "last.pt"))
train(model, optimizer)
torch.save(model.state_dict(), out / str(number) / "last.pt")
with open(out / "log.txt", "a", encoding="utf-8") as log:
    log.write("done\n")
