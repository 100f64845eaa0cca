"""A residual network on digits, with the autotuner on, as most training scripts have it."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

torch.manual_seed(4)
torch.backends.cudnn.benchmark = True  # <- cudnn-autotune
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
images, labels = load_digits(return_X_y=True)
images = functional.interpolate(torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8) / 16, scale_factor=4)
labels = torch.tensor(labels)


class Residual(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x):
        return functional.relu(self.body(x) + self.short(x))


model = nn.Sequential(
    nn.Conv2d(1, 32, 5, 1, 2),
    Residual(32, 64, 2),
    Residual(64, 128, 2),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(128, 10),
).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
for epoch in range(2):
    order = torch.randperm(len(images))
    for batch in order.split(128):
        x, y = images[batch].to(device), labels[batch].to(device)
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}")
torch.save(model.state_dict(), "resnet.pt")
