"""A few steps without a loader, which saves and resumes in the way that it is told to."""

import argparse
import os
import pickle
import random
import signal
import sys
from pathlib import Path

import numpy
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--mode", default="")
parser.add_argument("--out", type=Path, default=Path())
parser.add_argument("--resume", type=Path)
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()

if args.mode == "new-folder":
    args.out = args.out / "run"
    args.out.mkdir()
path = args.resume or args.out / "last.pt"
torch.manual_seed(0)
random.seed(0)
weight = torch.nn.Parameter(torch.randn(4))
optimizer = torch.optim.SGD([weight], lr=0.01, momentum=0.9)
first = 0
is_asked_to_end, counted = [], []
if args.mode == "term":
    signal.signal(signal.SIGTERM, lambda *_: is_asked_to_end.append(True))


def load(file: Path) -> int:
    """The step to go on with."""
    if args.mode.startswith("pickle"):
        with file.open("rb") as opened:
            state = pickle.load(opened)
    elif args.mode.startswith("own-way"):
        state = torch.from_numpy(numpy.fromfile(file, numpy.float64))
        state = {
            "step": state[0],
            "weight": state[1:5],
            "optimizer": {**optimizer.state_dict(), "state": {0: {"momentum_buffer": state[5:9].float()}}},
            "generators": state[9:].to(torch.uint8),
        }
    else:
        state = torch.load(file, weights_only=True)
    optimizer.load_state_dict(state["optimizer"])
    if args.mode != "own-way-without-generators":
        torch.set_rng_state(state["generators"])
    with torch.no_grad():
        weight.copy_(state["weight"])
    return int(state["step"])


def save(step: int) -> None:
    state = {
        "weight": weight.detach(),
        "optimizer": optimizer.state_dict(),
        "generators": torch.get_rng_state(),
        "step": step,
    }
    if args.mode == "pickle-without-count":
        counted.append(step)
        state["count"] = len(counted)
    if args.mode.startswith("pickle"):
        with open(f"{path}.new", "wb") as opened:
            pickle.dump(state, opened)
    elif args.mode.startswith("own-way"):
        momentum = optimizer.state_dict()["state"][0]["momentum_buffer"]
        parts = [torch.tensor([step]), weight.detach(), momentum, torch.get_rng_state()]
        torch.cat([part.double() for part in parts]).numpy().tofile(f"{path}.new")
    elif args.mode in ("torn", "torn-silently"):
        torch.save(state, path)
        return
    else:
        torch.save(state, f"{path}.new")
    os.replace(f"{path}.new", path)


if path.exists() and (args.mode != "other-command" or args.resume):
    if args.mode == "torn-silently":
        try:
            first = load(path)
        except RuntimeError:
            first = 0
    else:
        first = load(path)
elif args.mode == "other-command" and path.with_name("begun").exists():
    sys.exit("a training is there already: say --resume")
path.with_name("begun").touch()

for step in range(first, args.steps):
    data = torch.randn(4)
    if args.mode == "late" and step % 4 == 0:
        data = data * random.random()  # of a generator that is not saved
    if args.mode == "never-repeats":  # the time at which a file was made, which no pin holds
        data = data + os.stat("begun").st_ctime_ns % 1000
    optimizer.zero_grad()
    (weight * data).sum().backward()
    optimizer.step()
    if is_asked_to_end:
        save(step + 1)
        sys.exit(0)
    due = {"never": False, "last-only": step + 1 == args.steps, "term": False}
    if due.get(args.mode, (step + 1) % 5 == 0) or (args.mode == "term" and step == 4):
        save(step + 1)

print(weight.tolist())
