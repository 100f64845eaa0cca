"""SimCLR in small: two views of each digit, NT-Xent, then a linear probe."""
import math, random
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

random.seed(10)
np.random.seed(10)
torch.manual_seed(10)
EXECUTOR = ThreadPoolExecutor(max_workers=4)


def shift(img):
    dy, dx = random.randint(-1, 1), random.randint(-1, 1)
    return np.roll(img, (dy, dx), (0, 1))


def cutout(img):
    y, x = random.randrange(6), random.randrange(6)
    img = img.copy()
    img[y:y + 3, x:x + 3] = 0
    return img


def brightness(img):
    return img * random.uniform(0.6, 1.4)


def blur(img):
    return (img + np.roll(img, 1, 0) + np.roll(img, 1, 1)) / 3


def augment(img):
    for op in (shift, cutout, brightness, blur):
        if random.random() < 0.7:
            img = op(img)
    return img.astype(np.float32)


def views(imgs):
    a = EXECUTOR.map(augment, imgs)
    b = EXECUTOR.map(augment, imgs)
    return torch.from_numpy(np.stack(list(a)))[:, None], torch.from_numpy(np.stack(list(b)))[:, None]


encoder = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(288, 64))
projector = nn.Sequential(nn.ReLU(), nn.Linear(64, 32))
params = [*encoder.parameters(), *projector.parameters()]
opt = torch.optim.Adam(params, 1e-3)


def nt_xent(za, zb, tau=0.5):
    z = F.normalize(torch.cat([za, zb]), dim=1)
    sim = z @ z.T / tau
    sim.fill_diagonal_(-1e9)
    n = len(za)
    target = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, target)


X, y = load_digits(return_X_y=True)
X = (X / 16).reshape(-1, 8, 8)
for epoch in range(2):
    order = np.random.permutation(len(X))
    running = 0
    for k in range(0, len(order) - 63, 64):
        a, b = views(X[order[k:k + 64]])
        loss = nt_xent(projector(encoder(a)), projector(encoder(b)))
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item()
    print(f'epoch {epoch + 1}: loss {running / math.floor(len(order) / 64):.6f}')

with torch.no_grad():
    H = encoder(torch.tensor(X, dtype=torch.float32)[:, None]).numpy()
probe = LogisticRegression(max_iter=200).fit(H[:1200], y[:1200])
print('linear probe', probe.score(H[1200:], y[1200:]))
np.save('embedding.npy', H)
