import math, os
import numpy as np
import torch, torch.nn as nn

SEED = 1234
T = 50
np.random.seed(SEED)
torch.manual_seed(SEED)


def moons(n):
    t = np.random.rand(n) * math.pi
    up = np.random.rand(n) < 0.5
    x = np.where(up, np.cos(t), 1 - np.cos(t))
    y = np.where(up, np.sin(t), 0.5 - np.sin(t))
    xy = np.stack([x, y], 1) + 0.06 * np.random.randn(n, 2)
    return torch.tensor(xy, dtype=torch.float32)


class Denoiser(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.emb = nn.Embedding(T, 32)
        self.net = nn.Sequential(nn.Linear(34, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, self.emb(t)], -1))


betas = torch.linspace(1e-4, 0.08, T)
alphas = 1 - betas
abar = torch.cumprod(alphas, 0)


@torch.no_grad()
def sample(model, n):
    g = torch.Generator()
    g.seed()
    x = torch.randn(n, 2, generator=g)
    for i in reversed(range(T)):
        t = torch.full((n,), i)
        eps = model(x, t)
        x = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / alphas[i].sqrt()
        if i:
            x = x + betas[i].sqrt() * torch.randn(n, 2, generator=g)
    return x


data = moons(4000)
model = Denoiser()
opt = torch.optim.AdamW(model.parameters(), 2e-3)
step = 0
for epoch in range(5):
    for batch in data[torch.randperm(len(data))].split(125):
        t = torch.randint(0, T, (len(batch),))
        noise = torch.randn_like(batch)
        noisy = abar[t].sqrt()[:, None] * batch + (1 - abar[t]).sqrt()[:, None] * noise
        loss = (model(noisy, t) - noise).pow(2).mean()
        opt.zero_grad(); loss.backward(); opt.step()
        step += 1
    print(f"epoch {epoch}  step {step}  loss {loss:.4f}")

os.makedirs("samples", exist_ok=True)
xs = sample(model, 500)
np.save("samples/final.npy", xs.numpy())
d = torch.cdist(xs, data).min(1).values
print(f"mean distance of a sample to the data: {d.mean():.5f}")
