"""A small language model with accumulation, a gradient scaler and a worker, which resumes between two batches.

Without `--defect` it resumes with the same bits; with one, it lacks one state.
"""

import argparse
import os

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--defect", default="")
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
PATH, BATCH, WINDOWS, ACCUMULATE, EVERY = "last.pt", 4, 240, 4, 22


class Text(Dataset):
    """Windows of a text."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.tokens = torch.randint(0, 50, (WINDOWS + 16,), generator=generator)

    def __len__(self) -> int:
        return WINDOWS

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.tokens[index : index + 17]


class Batches:
    """The batches of one epoch, from one on; counts those that it gave away."""

    def __init__(self, epoch: int, start: int) -> None:
        self.epoch, self.given = epoch, start

    def __iter__(self):
        seed = 7 if args.defect == "order" and resumed else self.epoch
        order = torch.randperm(WINDOWS, generator=torch.Generator().manual_seed(seed)).tolist()
        while self.given < WINDOWS // BATCH:
            self.given += 1
            yield order[(self.given - 1) * BATCH : self.given * BATCH]


class Model(nn.Module):
    """Words to words, by way of one recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.layer = nn.Embedding(50, 16), nn.GRU(16, 32, batch_first=True)
        self.drop, self.head = nn.Dropout(0.1), nn.Linear(32, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.layer(self.words(tokens))[0]))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.98**step)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=3)
first_epoch = first_batch = done = 0
resumed = os.path.exists(PATH) and args.defect != "not-resumed"
generators = None

if resumed:
    state = torch.load(PATH, weights_only=True)
    if args.defect == "parameters":
        del state["model"]["words.weight"]
    model.load_state_dict(state["model"], strict=False)
    if args.defect != "optimizer":
        optimizer.load_state_dict(state["optimizer"])
    else:
        for group, saved in zip(optimizer.param_groups, state["optimizer"]["param_groups"], strict=True):
            group["lr"] = saved["lr"]
    if args.defect != "scheduler":
        scheduler.load_state_dict(state["scheduler"])
    if args.defect != "scaler":
        scaler.load_state_dict(state["scaler"])
    if args.defect != "accumulation":
        for parameter, gradient in zip(model.parameters(), state["gradients"], strict=True):
            parameter.grad = gradient
    first_epoch, first_batch, done = state["epoch"], state["batch"], state["done"]
    if args.defect == "position":
        first_batch = 0
    generators = state["generators"] if args.defect != "generators" else None

for epoch in range(first_epoch, args.epochs):
    batches = Batches(epoch, first_batch)
    loader = DataLoader(Text(), batch_sampler=batches, num_workers=1, prefetch_factor=2, generator=torch.Generator())
    windows = iter(loader)
    if generators is not None:
        torch.set_rng_state(generators)
        generators = None
    for batch, window in enumerate(windows, first_batch):
        logits = model(window[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten()) / ACCUMULATE
        scaler.scale(loss).backward()
        done += 1
        if done % ACCUMULATE == 0:
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            optimizer.zero_grad()
        if done % EVERY == 0:
            position = batches.given if args.defect == "look-ahead" else batch + 1
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "scaler": scaler.state_dict(),
                "gradients": [parameter.grad for parameter in model.parameters()],
                "generators": torch.get_rng_state(),
                "epoch": epoch,
                "batch": position,
                "done": done,
            }
            torch.save(state, PATH + ".new")
            os.replace(PATH + ".new", PATH)
    first_batch = 0
