"""Sensor anomalies: PCA + IsolationForest scores + distance to k-means centres, a torch head on top."""
import json
import random

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from torch import nn


def set_seed(s):
    random.seed(s)
    torch.manual_seed(s)


def sensors(n, rng):
    base = rng.standard_normal((n, 4)) @ rng.standard_normal((4, 16)) + 0.3 * rng.standard_normal((n, 16))
    bad = rng.random(n) < 0.12
    base[bad] += rng.standard_normal((bad.sum(), 16)) * 1.6
    return base, bad.astype(np.int64)


class Features:
    def fit(self, x):
        self.pca = PCA(n_components=6).fit(x)
        z = self.pca.transform(x)
        self.km = KMeans(n_clusters=5, n_init=3, random_state=0).fit(z)
        self.forest = IsolationForest(n_estimators=40, max_samples=128).fit(x)
        return self

    def __call__(self, x):
        z = self.pca.transform(x)
        cols = [z, self.km.transform(z), self.forest.score_samples(x)[:, None]]
        return torch.from_numpy(np.hstack(cols)).float()


class Head(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.BatchNorm1d(d)
        self.f = nn.Sequential(nn.Linear(d, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))

    def forward(self, x):
        return self.f(self.norm(x)).squeeze(1)


def main():
    set_seed(2)
    rng = np.random.default_rng(2)
    x, y = sensors(1600, rng)
    xt, yt, x, y = x[:500], y[:500], x[500:], y[500:]
    feats = Features().fit(x)
    f, ft, t = feats(x), feats(xt), torch.from_numpy(y).float()
    head = Head(f.shape[1])
    opt = torch.optim.AdamW(head.parameters(), lr=5e-3)
    lossf = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(4.0))
    for epoch in range(8):
        head.train()
        for b in torch.randperm(len(f)).split(64):
            loss = lossf(head(f[b]), t[b])
            opt.zero_grad()
            loss.backward()
            opt.step()
        head.eval()
        with torch.no_grad():
            auc = roc_auc_score(yt, head(ft).numpy())
        print(f"epoch {epoch + 1}  loss {loss.item():.5f}  auc {auc:.5f}")
    with torch.no_grad():
        worst = head(ft).argsort(descending=True, stable=True)[:10].tolist()
    json.dump({"auc": auc, "loss": loss.item(), "worst": worst}, open("anomaly.json", "w"))


if __name__ == "__main__":
    main()
