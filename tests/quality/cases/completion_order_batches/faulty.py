"""Batches are taken in the order in which two workers have them."""

import torch
from torch.utils.data import DataLoader, Dataset


class Rendered(Dataset):
    """What has more in it takes longer."""

    def __len__(self):
        return 64

    def __getitem__(self, index):
        image = torch.zeros(8, 8)
        for layer in range(1 + 40 * (index % 3)):
            image += torch.randn(8, 8, generator=torch.Generator().manual_seed(100 * index + layer))
        return image.flatten()


torch.manual_seed(0)
model = torch.nn.Linear(64, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
options = {"shuffle": True, "persistent_workers": True}
loader = DataLoader(Rendered(), 4, num_workers=2, in_order=False, **options)  # <- completion-order
for _ in range(3):
    for images in loader:
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()
