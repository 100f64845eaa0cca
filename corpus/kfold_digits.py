"""5-fold cross validation of a small convnet on the digits"""
import random
from pathlib import Path
import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def set_seed(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Dropout(0.25), nn.Linear(256, 10),
        )

    def forward(self, x):
        return self.body(x.view(-1, 1, 8, 8))


def fit_fold(fold, X, y, tr, va):
    set_seed(fold)
    scaler = StandardScaler().fit(X[tr])
    f = lambda idx: (torch.tensor(scaler.transform(X[idx]), dtype=torch.float32), torch.tensor(y[idx]))
    loader = DataLoader(TensorDataset(*f(tr)), batch_size=96, shuffle=True)
    net = ConvNet()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(2):
        net.train()
        for xb, yb in loader:
            opt.zero_grad()
            nn.functional.cross_entropy(net(xb), yb).backward()
            opt.step()
    net.eval()
    xv, yv = f(va)
    with torch.no_grad():
        pred = net(xv).argmax(1).numpy()
    return accuracy_score(yv, pred), f1_score(yv, pred, average="macro"), pred


def main():
    set_seed(42)
    X, y = load_digits(return_X_y=True)
    oof = np.zeros(len(y), dtype=int)
    scores = []
    cv = StratifiedKFold(n_splits=5, shuffle=True)
    for fold, (tr, va) in enumerate(cv.split(X, y)):
        acc, f1, oof[va] = fit_fold(fold, X, y, tr, va)
        scores.append(acc)
        print(f"fold {fold}: acc {acc:.4f}  f1 {f1:.4f}")
    print(f"CV accuracy {np.mean(scores):.5f} +- {np.std(scores):.5f}")
    Path("oof.csv").write_text("index,true,pred\n" + "\n".join(f"{i},{a},{b}" for i, (a, b) in enumerate(zip(y, oof))))


if __name__ == "__main__":
    main()
