"""Two ranks over gloo: a model with BatchNorm, dropout and an average, data in parts, which resumes within an epoch.

torchrun --nproc-per-node 2 ranks.py. Without `--defect` it resumes with the same bits; with one, it lacks one state.
"""

import argparse
import copy
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--defect", default="")
parser.add_argument("--epochs", type=int, default=5)
args = parser.parse_args()
EVERY = 5

dist.init_process_group("gloo")
rank = dist.get_rank()
own = "ranks-0.pt" if args.defect == "rank-state" else f"ranks-{rank}.pt"

torch.manual_seed(0)
made = torch.Generator().manual_seed(1)
data = TensorDataset(torch.randn(128, 8, generator=made), torch.randint(0, 3, (128,), generator=made))
plain = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
average = copy.deepcopy(plain)
model = DistributedDataParallel(plain)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9)
torch.manual_seed(10 + rank)
step = first_epoch = first_batch = 0

if os.path.exists("last.pt") and args.defect != "not-resumed":
    state = torch.load("last.pt", weights_only=True)
    if args.defect == "parameters":
        state["model"] = {name: value for name, value in state["model"].items() if not name.startswith("4.")}
    if args.defect == "buffers":
        state["model"] = {name: value for name, value in state["model"].items() if "running" not in name}
    plain.load_state_dict(state["model"], strict=False)
    if args.defect != "averaged":
        average.load_state_dict(state["average"])
    if args.defect != "optimizer":
        optimizer.load_state_dict(state["optimizer"])
    if args.defect != "scheduler":
        scheduler.load_state_dict(state["scheduler"])
    else:
        optimizer.param_groups[0]["lr"] = 1e-2
    if args.defect != "generators":
        torch.set_rng_state(torch.load(own, weights_only=True))
    step, first_epoch, first_batch = state["step"], state["epoch"], state["batch"]
    if args.defect == "position":
        first_batch = 0
    if args.defect == "epoch":
        first_epoch, first_batch = first_epoch + 1, 0

sampler = DistributedSampler(data, seed=3)
for epoch in range(first_epoch, args.epochs):
    sampler.set_epoch(epoch)
    loader = DataLoader(data, 8, sampler=sampler, generator=torch.Generator())
    for batch, (features, labels) in enumerate(loader):
        if batch < first_batch:
            continue
        optimizer.zero_grad()
        functional.cross_entropy(model(features), labels).backward()
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            for mean, now in zip(average.parameters(), plain.parameters(), strict=True):
                mean.lerp_(now, 0.1)
        step += 1
        if step % EVERY == 0:
            torch.save(torch.get_rng_state(), f"ranks-{rank}.pt")
            if rank == 0:
                state = {
                    "model": plain.state_dict(),
                    "average": average.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scheduler": scheduler.state_dict(),
                    "step": step,
                    "epoch": epoch,
                    "batch": batch + 1,
                }
                torch.save(state, "last.new")
                os.replace("last.new", "last.pt")
            dist.barrier()
    first_batch = 0
dist.destroy_process_group()
