"""Pretrain on digits 0-4, keep the backbone, fine-tune on 5-9."""
import os
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CACHE = Path(os.environ.get("MODEL_ZOO", Path.home() / ".cache" / "tinyzoo"))


def backbone():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
    )


def data(classes):
    d = load_digits()
    keep = (d.target >= classes[0]) & (d.target <= classes[-1])
    x = torch.tensor(d.images[keep], dtype=torch.float32)[:, None] / 16.0
    y = torch.tensor(d.target[keep]) - classes[0]
    return x, y


def run_epochs(model, x, y, params, epochs, lr, tag):
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    opt = torch.optim.AdamW(params, lr=lr)
    for ep in range(epochs):
        tot = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(xb), yb)
            loss.backward()
            opt.step()
            tot += loss.item() * len(xb)
        print(f"   {tag} epoch {ep + 1}/{epochs} loss {tot / len(x):.5f}")


def pretrained():
    """Backbone weights; trained once, then kept."""
    f = CACHE / "digits04-v1.pt"
    if not f.exists():
        print("=> pretraining")
        body = backbone()
        model = nn.Sequential(body, nn.Linear(128, 5))
        run_epochs(model, *data(range(5)), model.parameters(), 4, 2e-3, "pre")
        f.parent.mkdir(parents=True, exist_ok=True)
        torch.save(body.state_dict(), f)
    return torch.load(f)


def finetune(weights, epochs=5):
    print("=> finetuning")
    body = backbone()
    body.load_state_dict(weights)
    head = nn.Sequential(nn.Dropout(0.2), nn.Linear(128, 5))
    model = nn.Sequential(body, head)
    x, y = data(range(5, 10))
    groups = [{"params": body.parameters(), "lr": 2e-4}, {"params": head.parameters()}]
    run_epochs(model, x[:700], y[:700], groups, epochs, 2e-3, "tune")
    model.eval()
    with torch.no_grad():
        acc = (model(x[700:]).argmax(1) == y[700:]).double().mean().item()
    return model, acc


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(2024)
    model, acc = finetune(pretrained())
    print(f"held-out accuracy: {acc:.4f}")
    torch.save(model.state_dict(), "finetuned.pt")
