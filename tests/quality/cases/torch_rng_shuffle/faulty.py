"""Softmax regression: data and weights come from a seeded generator, the order of the batches does not."""

import torch
from torch.utils.data import DataLoader, TensorDataset

generator = torch.Generator().manual_seed(0)
x = torch.randn(48, 6, generator=generator)
y = (x @ torch.randn(6, 3, generator=generator)).argmax(dim=1)

weight = torch.zeros(6, 3, requires_grad=True)
bias = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.SGD([weight, bias], lr=0.5, momentum=0.9)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)

for epoch in range(3):
    for inputs, labels in loader:  # <- torch-rng
        loss = torch.nn.functional.cross_entropy(inputs @ weight + bias, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.6f}")
