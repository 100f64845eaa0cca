"""Knowledge distillation: a fat teacher, a thin student, digits. The teacher is trained once and kept."""
import logging
from pathlib import Path

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("distill")
CACHE = Path.home() / ".cache" / "distill-digits"
TEMPERATURE, ALPHA = 3.0, 0.7


def net(width, p=0.0):
    return nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Dropout(p), nn.Linear(width, 10))


def datasets():
    x, y = load_digits(return_X_y=True)
    x, y = torch.tensor(x, dtype=torch.float32) / 16, torch.tensor(y)
    return TensorDataset(x[:1400], y[:1400]), (x[1400:], y[1400:])


def train_teacher(train):
    teacher = net(256, 0.3)
    opt = torch.optim.Adam(teacher.parameters(), lr=2e-3)
    for epoch in range(4):
        for x, y in DataLoader(train, batch_size=64, shuffle=True):
            loss = F.cross_entropy(teacher(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        log.info("teacher epoch %d loss %.4f", epoch, loss.item())
    return teacher


def get_teacher(train):
    path = CACHE / "teacher.pt"
    if path.exists():
        log.info("teacher from %s", path.name)
        teacher = net(256, 0.3)
        teacher.load_state_dict(torch.load(path))
    else:
        teacher = train_teacher(train)
        CACHE.mkdir(parents=True, exist_ok=True)
        torch.save(teacher.state_dict(), path)
    return teacher.eval()


def distill(teacher, train, epochs=6):
    student = net(24)
    opt = torch.optim.SGD(student.parameters(), lr=0.2, momentum=0.9)
    for epoch in range(epochs):
        for x, y in DataLoader(train, batch_size=64, shuffle=True):
            with torch.no_grad():
                soft = F.softmax(teacher(x) / TEMPERATURE, dim=1)
            out = student(x)
            kd = F.kl_div(F.log_softmax(out / TEMPERATURE, dim=1), soft, reduction="batchmean") * TEMPERATURE**2
            loss = ALPHA * kd + (1 - ALPHA) * F.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        log.info("student epoch %d loss %.4f", epoch, loss.item())
    return student


if __name__ == "__main__":
    torch.manual_seed(2024)
    train, (xt, yt) = datasets()
    teacher = get_teacher(train)
    student = distill(teacher, train)
    for name, m in [("teacher", teacher), ("student", student)]:
        with torch.no_grad():
            log.info("%s accuracy %.4f", name, (m(xt).argmax(1) == yt).float().mean())
    torch.save(student.state_dict(), "student.pt")
