"""Two stages. `prepare` children print rows; the parent reads them and trains.

    python b12_two_stage.py            does everything
    python b12_two_stage.py prepare K  prints the rows of part K
"""
import json
import math
import random
import subprocess
import sys

PARTS, ROWS = 3, 260


def prepare(part):
    """One JSON row a line: a noisy chirp and its class."""
    for _ in range(ROWS):
        label = random.randrange(4)
        f = 1.0 + label + 0.3 * part
        ph = random.uniform(0, 2 * math.pi)
        sig = [math.sin(f * t / 4 + ph) + random.gauss(0, 0.4) for t in range(24)]
        sys.stdout.write(json.dumps({"part": part, "y": label, "x": [round(v, 4) for v in sig]}) + "\n")
        sys.stdout.flush()


def collect():
    import os
    r, w = os.pipe()
    kids = [subprocess.Popen([sys.executable, __file__, "prepare", str(k)], stdout=w) for k in range(PARTS)]
    os.close(w)
    with os.fdopen(r) as lines:
        rows = [json.loads(line) for line in lines]
    for kid in kids:
        if kid.wait() != 0:
            raise SystemExit("a part failed")
    return rows


def train(rows):
    import torch
    from torch import nn
    torch.manual_seed(1)
    x = torch.tensor([r["x"] for r in rows]).unsqueeze(1)
    y = torch.tensor([r["y"] for r in rows])
    cut = len(x) * 4 // 5
    net = nn.Sequential(nn.Conv1d(1, 16, 5), nn.ReLU(), nn.Conv1d(16, 16, 5), nn.ReLU(), nn.AdaptiveMaxPool1d(4),
                        nn.Flatten(), nn.Linear(64, 4))
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    for epoch in range(10):
        total = 0.0
        for i in torch.randperm(cut).split(32):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x[i]), y[i])
            loss.backward()
            opt.step()
            total += loss.item() * len(i)
        print(f"epoch {epoch:2d} loss {total / cut:.5f}")
    with torch.no_grad():
        acc = (net(x[cut:]).argmax(1) == y[cut:]).float().mean().item()
    print(f"{len(rows)} rows, test accuracy {acc:.4f}, last loss {total / cut:.7f}")
    torch.save(net.state_dict(), "chirps.pt")


if __name__ == "__main__":
    if sys.argv[1:2] == ["prepare"]:
        prepare(int(sys.argv[2]))
    else:
        random.seed(0)
        train(collect())
