"""The small CNN of digits_resume.py, stopped and started again with the same bits: every generator comes back, too."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from samebits.state import Training

torch.manual_seed(0)
pixels, digits = load_digits(return_X_y=True)
images, labels = torch.tensor(pixels / 16, dtype=torch.float32).view(-1, 1, 8, 8), torch.tensor(digits)
loader = DataLoader(TensorDataset(images[:1500], labels[:1500]), batch_size=50, shuffle=True)

cnn = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2), nn.Linear(288, 10))
optimizer = torch.optim.SGD(cnn.parameters(), lr=0.1, momentum=0.9)

training = Training(model=cnn, optimizer=optimizer)
first = training.resume("checkpoints") or 0

for epoch in range(first, 6):  # of 30 steps
    for batch, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(cnn(batch), targets)
        loss.backward()
        optimizer.step()
    training.save("checkpoints", epoch + 1)

cnn.eval()
scores, targets = cnn(images[1500:]), labels[1500:]
loss, accuracy = nn.functional.cross_entropy(scores, targets), (scores.argmax(1) == targets).float().mean()
print(f"loss {loss.item():.6f} and accuracy {accuracy.item():.3f} on 297 held-out digits")
