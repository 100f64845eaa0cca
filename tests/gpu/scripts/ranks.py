"""DistributedDataParallel over NCCL, as torchrun starts it."""

import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
torch.manual_seed(12)
model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).cuda(), device_ids=[rank])
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _step in range(20):
    loss = model(torch.randn(32, 64).cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if rank == 0:
    torch.save(model.module.state_dict(), "ranks.pt")
    print("loss", loss.item())
torch.distributed.destroy_process_group()
