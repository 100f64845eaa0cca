"""Random crops in two DataLoader workers, placed by a generator seeded by the index."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Crops(Dataset):
    def __init__(self, images, size):
        self.images, self.size = images, size

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        where = torch.Generator().manual_seed(index)
        top, left = torch.randint(self.images.shape[-1] - self.size, (2,), generator=where).tolist()
        return self.images[index, :, top : top + self.size, left : left + self.size], index % 2


def main():
    torch.manual_seed(0)
    loader = DataLoader(Crops(torch.rand(40, 1, 16, 16), size=8), batch_size=4, num_workers=2)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for crops, labels in loader:
        loss = nn.functional.cross_entropy(model(crops), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
