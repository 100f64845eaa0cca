"""A small VAE on 8x8 digits. Saves the weights and a sheet of samples."""
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

LATENT = 6
EPOCHS = 8


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, 96), nn.ReLU())
        self.mu, self.logvar = nn.Linear(96, LATENT), nn.Linear(96, LATENT)
        self.dec = nn.Sequential(nn.Linear(LATENT, 96), nn.ReLU(), nn.Linear(96, 64), nn.Sigmoid())

    def forward(self, x):
        h = self.enc(x)
        mu, lv = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * lv).exp()
        return self.dec(z), mu, lv


def elbo(rec, x, mu, lv):
    bce = F.binary_cross_entropy(rec, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
    return (bce + kld) / len(x)


def sample_sheet(vae, rows=6, cols=10):
    gen = torch.Generator()
    gen.seed()
    z = torch.randn(rows * cols, LATENT, generator=gen)
    with torch.no_grad():
        img = vae.dec(z).view(rows, cols, 8, 8).permute(0, 2, 1, 3).reshape(rows * 8, cols * 8)
    return (img * 255).byte().numpy()


def save_pgm(path, a):
    with open(path, "wb") as f:
        f.write(b"P5 %d %d 255\n" % (a.shape[1], a.shape[0]))
        f.write(a.tobytes())


def main():
    torch.manual_seed(0)
    x = torch.from_numpy((load_digits().data / 16).astype(np.float32))
    train, val = x[:1500], x[1500:]
    vae = VAE()
    opt = torch.optim.Adam(vae.parameters(), 2e-3)
    for epoch in range(1, EPOCHS + 1):
        vae.train()
        for b in torch.randperm(len(train)).split(100):
            rec, mu, lv = vae(train[b])
            loss = elbo(rec, train[b], mu, lv)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
        vae.eval()
        with torch.no_grad():
            v = elbo(*[vae(val)[0], val, *vae(val)[1:]]).item()
        print(f"====> Epoch {epoch}: train {loss.item():.3f}  val {v:.3f}")
    torch.save(vae.state_dict(), "vae.pt")
    sheet = sample_sheet(vae)
    save_pgm("samples.pgm", sheet)
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
        plt.imsave("samples.png", sheet, cmap="gray")
    except ImportError:
        pass


main()
