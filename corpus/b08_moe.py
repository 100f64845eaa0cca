"""Sparse mixture of experts, top-3 of 8; experts run side by side in threads."""
import queue
import threading

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(31)
torch.set_num_threads(1)


class Expert(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.up, self.down = nn.Linear(d, h), nn.Linear(h, d)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Worker(threading.Thread):
    def __init__(self, jobs, done):
        super().__init__(daemon=True)
        self.jobs, self.done = jobs, done

    def run(self):
        while True:
            job = self.jobs.get()
            if job is None:
                return
            expert, x, rows, gate = job
            self.done.put((rows, expert(x[rows]) * gate.unsqueeze(1)))


class MoE(nn.Module):
    def __init__(self, d=32, h=64, n=8, k=3, threads=3):
        super().__init__()
        self.router = nn.Linear(d, n, bias=False)
        self.experts = nn.ModuleList(Expert(d, h) for _ in range(n))
        self.k = k
        self.jobs, self.done = queue.Queue(), queue.Queue()
        for _ in range(threads):
            Worker(self.jobs, self.done).start()

    def forward(self, x):
        prob = self.router(x).softmax(-1)
        gate, which = prob.topk(self.k, dim=-1)
        gate = gate / gate.sum(-1, keepdim=True)
        n = 0
        for e, expert in enumerate(self.experts):
            rows, slot = (which == e).nonzero(as_tuple=True)
            if len(rows):
                self.jobs.put((expert, x, rows, gate[rows, slot]))
                n += 1
        out = torch.zeros_like(x)
        for _ in range(n):
            rows, y = self.done.get()
            out = out.index_add(0, rows, y)
        load = F.one_hot(which, len(self.experts)).float().sum(1).mean(0)
        self.balance = (load * prob.mean(0)).sum()
        return x + out


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.moe, self.norm, self.head = nn.Linear(10, 32), MoE(), nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.norm(self.moe(self.inp(x))))


def make_data(n):
    x = torch.randn(n, 10)
    y = (x[:, 0] * x[:, 1] > 0).long() + 2 * (x[:, 2] + x[:, 3].abs() > 0.5).long()
    return x, y


x, y = make_data(2048)
xt, yt = make_data(512)
model = Model()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-3)
step = 0
for epoch in range(6):
    for idx in torch.randperm(len(x)).split(128):
        logits = model(x[idx])
        loss = F.cross_entropy(logits, y[idx]) + 0.02 * model.moe.balance
        opt.zero_grad()
        loss.backward()
        opt.step()
        step += 1
    with torch.no_grad():
        acc = (model(xt).argmax(1) == yt).float().mean().item()
    print(f"epoch {epoch} step {step:4d} loss {loss.item():.7f} acc {acc:.4f}")
torch.save(model.state_dict(), "moe.pt")
