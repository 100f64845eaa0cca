"""A 3-D U-Net: spheres are found in noisy volumes, voxel by voxel, and counted."""

import argparse
import hashlib

import torch
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--batch", type=int, default=2)
SIDE, MOST = 24, 3


def volumes(count, generator):
    """Noisy volumes, which voxels belong to a small (1) or a large sphere (2), and how many spheres there are."""
    place = torch.stack(torch.meshgrid(*[torch.arange(SIDE)] * 3, indexing="ij"), -1)
    images, masks = torch.zeros(count, 1, SIDE, SIDE, SIDE), torch.zeros(count, SIDE, SIDE, SIDE, dtype=torch.int64)
    counts = torch.randint(1, MOST + 1, (count,), generator=generator)
    for image, mask, spheres in zip(images, masks, counts, strict=True):
        for _ in range(int(spheres)):
            radius = int(torch.randint(2, 7, (), generator=generator))
            middle = torch.randint(radius, SIDE - radius, (3,), generator=generator)
            mask[((place - middle) ** 2).sum(-1) <= radius**2] = 1 if radius < 4 else 2
        image += mask * 0.5 + torch.randn(image.shape, generator=generator) * 0.3
    return images, masks, counts


def block(before, after):
    return nn.Sequential(nn.Conv3d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.LeakyReLU(0.1))


class UNet3d(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first, self.second, self.third = block(1, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.up2, self.up1 = block(6 * width, 2 * width), block(3 * width, width)
        self.last = nn.Conv3d(width, 3, 1)
        self.counted = nn.Linear(4 * width * (27 + 8), MOST + 1)

    def forward(self, x):
        one = self.first(x)
        two = self.second(functional.max_pool3d(one, 2))
        three = self.third(functional.avg_pool3d(two, 2))
        found = functional.interpolate(three, scale_factor=2, mode="trilinear", align_corners=False)
        found = self.up2(torch.cat([found, two], 1))
        found = functional.interpolate(found, scale_factor=2, mode="trilinear", align_corners=False)
        # 6 is no multiple of 4: windows overlap.
        pools = functional.adaptive_max_pool3d(three, 3), functional.adaptive_avg_pool3d(three[..., 1:, 1:, 1:], 2)
        counts = self.counted(torch.cat([one.flatten(1) for one in pools], 1))
        return self.last(self.up1(torch.cat([found, one], 1))), counts


def dice(logits, mask):
    """One less the overlap of what was found with what is there, over both kinds of spheres."""
    found, there = logits.softmax(1)[:, 1:], functional.one_hot(mask, 3).movedim(-1, 1)[:, 1:].float()
    return 1 - (2 * (found * there).sum() + 1) / (found.sum() + there.sum() + 1)


def train(steps, batch, device):
    torch.manual_seed(0)
    images, masks, counts = volumes(8 * batch, torch.Generator().manual_seed(0))
    net = UNet3d().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for step in range(steps):
        chosen = slice(step % 8 * batch, (step % 8 + 1) * batch)
        # A flipped volume is as good as the volume, with its edges repeated for a margin.
        x, y = images[chosen].to(device), masks[chosen].to(device)
        if step % 2:
            x, y = x.flip(-1), y.flip(-1)
        logits, counted = net(x)
        loss = functional.cross_entropy(logits, y) + dice(logits, y)
        loss = loss + 0.1 * functional.cross_entropy(counted, counts[chosen].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net, loss.item()


if __name__ == "__main__":
    options = parser.parse_args()
    net, loss = train(options.steps, options.batch, torch.accelerator.current_accelerator() or "cpu")
    state = torch.cat([one.detach().cpu().flatten() for one in net.parameters()])
    print(f"{loss:.6f}", hashlib.sha256(state.numpy().tobytes()).hexdigest())
