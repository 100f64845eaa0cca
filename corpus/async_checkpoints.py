"""Saves in the background so that training need not wait; the last checkpoints are averaged at the end."""
import queue
import threading
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(1)
OUT = Path("checkpoints")
OUT.mkdir(exist_ok=True)


class Saver(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.q = queue.Queue(maxsize=2)
        self.start()

    def run(self):
        while True:
            item = self.q.get()
            if item is not None:
                state, name = item
                tmp = OUT / (name + ".tmp")
                torch.save(state, tmp)
                tmp.rename(OUT / name)
            self.q.task_done()
            if item is None:
                break

    def save(self, state, name):
        self.q.put((state, name))

    def close(self):
        self.q.put(None)
        self.join()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.GRU(8, 64, batch_first=True)
        self.head = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 2))

    def forward(self, x):
        return self.head(self.enc(x)[1][0])


def batch(n=32):
    x = torch.randn(n, 10, 8)
    return x, (x[..., 0].cumsum(1).amax(1) > x[..., 1].cumsum(1).amax(1)).long()


model, saver = Net(), Saver()
opt = torch.optim.Adam(model.parameters(), 2e-3)
xv, yv = batch(512)
for step in range(1, 241):
    x, y = batch()
    loss = nn.functional.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        saver.save(model.state_dict(), f"step{step:05d}.pt")
    if step % 60 == 0:
        print(f"step {step} loss {loss.item():.4f}")
saver.close()


def average(paths):
    states = [torch.load(p) for p in paths]
    return {k: sum(s[k] for s in states) / len(states) for k in states[0]}


last = sorted(OUT.glob("*.pt"))[-6:]
model.load_state_dict(average(last))
with torch.no_grad():
    out = model(xv)
print("averaged:", ", ".join(p.stem for p in last))
print("val loss", nn.functional.cross_entropy(out, yv).item(), "acc", (out.argmax(1) == yv).float().mean().item())
torch.save(model.state_dict(), "averaged.pt")
