"""SWA + EMA + warm restarts, goes on from out/last.pt."""
import json
import os

import numpy as np
import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

OUT = "out"
CKPT = os.path.join(OUT, "last.pt")
EPOCHS, SWA_START, BATCH = 10, 6, 64


def spirals(n=1200, seed=3):
    r = np.random.RandomState(seed)
    t = np.sqrt(r.rand(n)) * 3 * np.pi
    lab = r.randint(0, 2, n)
    s = np.where(lab == 0, 1.0, -1.0)
    xy = np.stack([s * t * np.cos(t), s * t * np.sin(t)], 1) / 9 + 0.02 * r.randn(n, 2)
    return torch.tensor(xy, dtype=torch.float32), torch.tensor(lab)


def make():
    return nn.Sequential(nn.Linear(2, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.BatchNorm1d(64),
                         nn.ReLU(), nn.Linear(64, 2))


def accuracy(m, x, y):
    m.eval()
    with torch.no_grad():
        a = (m(x).argmax(1) == y).float().mean().item()
    m.train()
    return a


def main():
    torch.manual_seed(42)
    os.makedirs(OUT, exist_ok=True)
    x, y = spirals()
    xv, yv = spirals(400, seed=4)
    net = make()
    swa = AveragedModel(net)
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=3)
    swa_sched = SWALR(opt, swa_lr=0.02, anneal_epochs=2)
    first = 0
    if os.path.exists(CKPT):
        c = torch.load(CKPT)
        net.load_state_dict(c["net"])
        swa.load_state_dict(c["swa"])
        ema.load_state_dict(c["ema"])
        opt.load_state_dict(c["opt"])
        first = c["epoch"]
        print(f"resumed at epoch {first}")
    for epoch in range(first, first + EPOCHS):
        for b in torch.randperm(len(x)).split(BATCH):
            loss = nn.functional.cross_entropy(net(x[b]), y[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
            ema.update_parameters(net)
        if epoch >= SWA_START:
            swa.update_parameters(net)
            swa_sched.step()
        else:
            sched.step()
        print(f"{epoch:3d}  lr {opt.param_groups[0]['lr']:.4f}  loss {loss.item():.6f}  val {accuracy(net, xv, yv):.4f}")
    update_bn([(x,)], swa)
    res = {"net": accuracy(net, xv, yv), "ema": accuracy(ema, xv, yv), "swa": accuracy(swa, xv, yv), "loss": loss.item()}
    print(res)
    torch.save({"net": net.state_dict(), "swa": swa.state_dict(), "ema": ema.state_dict(), "opt": opt.state_dict(),
                "epoch": epoch + 1}, CKPT)
    with open(os.path.join(OUT, "result.json"), "w") as f:
        json.dump(res, f)


if __name__ == "__main__":
    main()
