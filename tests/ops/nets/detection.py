"""A detector with two stages: boxes are proposed, and features are sampled in each to say what is in it and where."""

import argparse
import hashlib

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--batch", type=int, default=8)
SIZE, NOTHING = 64, 10


def scenes(count, generator):
    """Pictures with one digit each, the digit, and its box as (left, top, right, bottom) in shares of the picture."""
    digits, kinds = load_digits(return_X_y=True)
    digits = torch.tensor(digits, dtype=torch.float32).view(-1, 1, 8, 8) / 16
    chosen = torch.randint(len(digits), (count,), generator=generator)
    images, boxes = torch.zeros(count, 1, SIZE, SIZE), torch.zeros(count, 4)
    for image, box, which in zip(images, boxes, chosen, strict=True):
        side = int(torch.randint(16, 33, (), generator=generator))
        left, top = (int(torch.randint(SIZE - side, (), generator=generator)) for _ in range(2))
        image[:, top : top + side, left : left + side] = functional.interpolate(digits[which][None], side)[0]
        box[:] = torch.tensor([left, top, left + side, top + side]) / SIZE
    return images, torch.tensor(kinds)[chosen], boxes


def roi_align(features, boxes, size=7):
    """What lies in each box, (N, K, C, size, size), for boxes (N, K, 4); differentiable by both."""
    count, each = boxes.shape[:2]
    steps = (torch.arange(size, device=boxes.device) + 0.5) / size
    left, top, right, bottom = boxes.unbind(-1)
    x = left[..., None] + (right - left)[..., None] * steps
    y = top[..., None] + (bottom - top)[..., None] * steps
    rows, columns = y[..., :, None].expand(-1, -1, size, size), x[..., None, :].expand(-1, -1, size, size)
    grid = torch.stack([columns, rows], -1) * 2 - 1
    found = functional.grid_sample(features, grid.view(count, each * size, size, 2), align_corners=False)
    return found.view(count, -1, each, size, size).transpose(1, 2)


def overlap(a, b):
    """Intersection over union, for boxes (..., 4)."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    both = (high - low).clamp(min=0).prod(-1)
    return both / ((a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - both)


class Detector(nn.Module):
    def __init__(self, width=32, kept=8):
        super().__init__()
        self.kept = kept
        layers, before = [], 1
        for after in (width // 2, width, width):
            layers += [nn.Conv2d(before, after, 3, 2, 1), nn.GroupNorm(4, after), nn.ReLU()]
            before = after
        self.backbone = nn.Sequential(*layers)
        self.smooth = nn.Conv2d(width, width, 3, padding=1)
        self.proposals = nn.Conv2d(width, 5, 1)
        self.head = nn.Sequential(nn.Flatten(2), nn.Linear(width * 49, 64), nn.ReLU())
        self.kind, self.shift = nn.Linear(64, 11), nn.Linear(64, 4)
        side = (torch.arange(SIZE // 8) + 0.5) / (SIZE // 8)
        middle = torch.stack(torch.meshgrid(side, side, indexing="xy"), -1).view(-1, 2)
        self.register_buffer("anchors", torch.cat([middle - 0.2, middle + 0.2], 1))

    def forward(self, images):
        features = self.backbone(images)
        # A coarser level of the pyramid, brought back to the size of the finer one.
        coarse = functional.interpolate(functional.max_pool2d(features, 2), scale_factor=2, mode="bilinear")
        features = self.smooth(features + coarse)
        found = self.proposals(features).flatten(2).transpose(1, 2)
        scores, proposed = found[..., 0], self.anchors + 0.1 * found[..., 1:].tanh()
        best = scores.topk(self.kept).indices
        boxes = proposed.gather(1, best[..., None].expand(-1, -1, 4))
        seen = self.head(roi_align(features, boxes))
        return scores, proposed, boxes, self.kind(seen), boxes + 0.1 * self.shift(seen)


def loss_of(net, images, kinds, boxes):
    scores, proposed, chosen, logits, final = net(images)
    is_near = (overlap(net.anchors[None], boxes[:, None]) > 0.3).float()
    first = functional.binary_cross_entropy_with_logits(scores, is_near)
    first = (
        first
        + (
            functional.smooth_l1_loss(proposed, boxes[:, None].expand_as(proposed), reduction="none").sum(-1) * is_near
        ).mean()
    )
    is_right = overlap(chosen.detach(), boxes[:, None]) > 0.3
    target = torch.where(is_right, kinds[:, None], NOTHING)
    second = functional.cross_entropy(logits.transpose(1, 2), target)
    off = functional.smooth_l1_loss(final, boxes[:, None].expand_as(final), reduction="none").sum(-1)
    return first + second + 5 * (off * is_right).mean()


def train(steps, batch, device):
    torch.manual_seed(0)
    images, kinds, boxes = (one.to(device) for one in scenes(8 * batch, torch.Generator().manual_seed(0)))
    net = Detector().to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    for step in range(steps):
        chosen = slice(step % 8 * batch, (step % 8 + 1) * batch)
        loss = loss_of(net, images[chosen], kinds[chosen], boxes[chosen])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 5.0)
        optimizer.step()
    return net, loss.item()


if __name__ == "__main__":
    options = parser.parse_args()
    net, loss = train(options.steps, options.batch, torch.accelerator.current_accelerator() or "cpu")
    state = torch.cat([one.detach().cpu().flatten() for one in net.parameters()])
    print(f"{loss:.6f}", hashlib.sha256(state.numpy().tobytes()).hexdigest())
