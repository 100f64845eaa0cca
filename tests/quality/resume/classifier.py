"""An image classifier with augmentation, AdamW and a schedule, which resumes in the middle of an epoch.

Without `--defect` it resumes with the same bits; with one, it lacks one state. A guilty line carries its name.
"""

import argparse
import copy
import os

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Sampler

parser = argparse.ArgumentParser()
parser.add_argument("--defect", default="")
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--every", type=int, default=5)
args = parser.parse_args()
PATH, BATCH, SAMPLES = "last.pt", 8, 64


class Images(Dataset):
    """Pictures that are shifted and made noisy as they are read."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randn(SAMPLES, 1, 8, 8, generator=generator)
        self.labels = torch.randint(0, 4, (SAMPLES,), generator=generator)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        shift = 1 if args.defect == "generators" else int(torch.randint(0, 3, ()))  # draws for each sample
        return self.images[index].roll(shift, -1), self.labels[index]


class Order(Sampler):
    """The order of one epoch, from a batch on."""

    def __init__(self, epoch: int, start: int) -> None:
        self.epoch, self.start = epoch, start

    def __iter__(self):
        if args.defect == "order":  # <- order
            return iter(torch.randperm(SAMPLES).tolist()[self.start * BATCH :])
        generator = torch.Generator().manual_seed(100 + self.epoch)
        return iter(torch.randperm(SAMPLES, generator=generator).tolist()[self.start * BATCH :])

    def __len__(self) -> int:
        return SAMPLES - self.start * BATCH


torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, 4)
)
average = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=40)
step = first_epoch = first_batch = 0
generators = None

if os.path.exists(PATH) and args.defect != "not-resumed":
    state = torch.load(PATH, weights_only=True)
    model.load_state_dict(state["model"], strict=args.defect not in ("parameters", "buffers"))
    if args.defect != "averaged":
        average.load_state_dict(state["average"])
    if args.defect != "optimizer":
        optimizer.load_state_dict(state["optimizer"])
    if args.defect != "scheduler":
        scheduler.load_state_dict(state["scheduler"])
    else:
        for group in optimizer.param_groups:
            group["lr"] = 1e-2
    step, first_epoch, first_batch = state["step"], state["epoch"], state["batch"]
    generators = state["generators"]
    if args.defect == "position":
        first_batch = 0
    if args.defect == "epoch":
        first_epoch, first_batch = first_epoch + 1, 0


def save(epoch: int, batch: int) -> None:
    """Write the whole state beside the last one, and put it in its place."""
    weights = model.state_dict()
    if args.defect == "parameters":
        weights = {name: value for name, value in weights.items() if not name.startswith("5.")}
    if args.defect == "buffers":
        weights = {name: value for name, value in weights.items() if "running" not in name}
    state = {
        "model": weights,
        "average": average.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "generators": torch.get_rng_state(),
        "step": step,
        "epoch": epoch,
        "batch": batch,
    }
    torch.save(state, PATH + ".new")
    os.replace(PATH + ".new", PATH)


for epoch in range(first_epoch, args.epochs):
    loader = DataLoader(Images(), BATCH, sampler=Order(epoch, first_batch), generator=torch.Generator())
    batches = iter(loader)
    if generators is not None and args.defect not in ("sample-generators", "generators", "order"):
        torch.set_rng_state(generators)
        generators = None
    for batch, (images, labels) in enumerate(batches, first_batch):
        if generators is not None and args.defect == "sample-generators":
            torch.set_rng_state(generators)  # <- sample-generators
            generators = None
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            for mean, now in zip(average.parameters(), model.parameters(), strict=True):
                mean.lerp_(now, 0.1)
        step += 1
        if step % args.every == 0:
            save(epoch, batch + 1)
    first_batch = 0
