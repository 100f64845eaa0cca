"""A small agent with a replay buffer, an environment, a target network and a rate of exploration.

Without `--defect` it resumes with the same bits; with one, it lacks one state. `--objects` keeps it as pickled objects.
"""

import argparse
import copy
import os
import random
from collections import deque, namedtuple

import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--defect", default="")
parser.add_argument("--objects", action="store_true")
args = parser.parse_args()
PATH, EVERY, MOVES = "agent.pt", 15, 70

Move = namedtuple("Move", "state action reward after")


class World:
    """Goes where it is pushed, and not quite."""

    def __init__(self) -> None:
        self.place = torch.zeros(3)

    def move(self, action: int) -> float:
        self.place = torch.tanh(self.place + action - 0.5 + 0.1 * torch.randn(3))
        return float(self.place[0])


torch.manual_seed(0)
random.seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
target = copy.deepcopy(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
world, memory, curiosity, first = World(), deque(maxlen=40), 1.0, 0

if os.path.exists(PATH):
    state = torch.load(PATH, weights_only=False)
    if args.objects:
        model, optimizer = state["model"], state["optimizer"]
    else:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    if args.defect != "averaged":
        target.load_state_dict(state["target"])
    if args.defect != "carried":
        world.place = state["place"]
    if args.defect != "replay":
        memory.extend(Move(*one) for one in state["memory"])
    if args.defect != "counter":
        curiosity = state["curiosity"]
    first = state["first"]
    random.setstate(state["random"])
    torch.set_rng_state(state["generator"])

for move in range(first, MOVES):
    before = world.place.clone()
    with torch.no_grad():
        action = random.randrange(2) if random.random() < curiosity else int(model(before).argmax())
    memory.append(Move(before, action, world.move(action), world.place.clone()))
    curiosity = max(0.1, curiosity * 0.97)
    if move >= 8:
        batch = random.sample(list(memory), min(len(memory), 8))
        reward = torch.tensor([one.reward for one in batch])
        wanted = reward + 0.9 * target(torch.stack([one.after for one in batch])).max(1).values.detach()
        chosen = model(torch.stack([one.state for one in batch]))[range(len(batch)), [one.action for one in batch]]
        optimizer.zero_grad()
        functional.mse_loss(chosen, wanted).backward()
        optimizer.step()
    if move % 10 == 0:
        target.load_state_dict(model.state_dict())
    if (move + 1) % EVERY == 0:
        state = {
            "model": model if args.objects else model.state_dict(),
            "optimizer": optimizer if args.objects else optimizer.state_dict(),
            "target": target.state_dict(),
            "place": world.place,
            "memory": [tuple(one) for one in memory],
            "curiosity": curiosity,
            "first": move + 1,
            "random": random.getstate(),
            "generator": torch.get_rng_state(),
        }
        torch.save(state, PATH)
