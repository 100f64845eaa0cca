"""A CRNN: strips of digits are read column by column, and compared with what is written by CTC."""

import argparse
import hashlib

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--batch", type=int, default=8)
BLANK, LONGEST = 0, 6


def strips(count, generator):
    """Strips of three to six digits in one row, (N, 1, 16, 96), what is written, 0 beyond its end, and how much."""
    digits, kinds = load_digits(return_X_y=True)
    digits = torch.tensor(digits, dtype=torch.float32).view(-1, 8, 8) / 16
    images, texts = torch.zeros(count, 1, 16, LONGEST * 16), torch.zeros(count, LONGEST, dtype=torch.int64)
    lengths = torch.randint(3, LONGEST + 1, (count,), generator=generator)
    for image, text, length in zip(images, texts, lengths, strict=True):
        chosen = torch.randint(len(digits), (int(length),), generator=generator)
        row = torch.cat([digits[which] for which in chosen], 1)
        image[:, :, : 16 * int(length)] = functional.interpolate(row[None, None], scale_factor=2)[0]
        text[: int(length)] = torch.tensor(kinds)[chosen] + 1
    return images, texts, lengths


class CRNN(nn.Module):
    def __init__(self, width=32, hidden=48):
        super().__init__()
        self.seen = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(1, width, 3),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveMaxPool2d((3, LONGEST * 4)),
        )
        self.read = nn.LSTM(3 * width, hidden, bidirectional=True, batch_first=True)
        self.near = nn.Conv1d(2 * hidden, hidden, 5)
        self.named = nn.Linear(hidden, 11)

    def forward(self, x):
        columns = self.seen(x).flatten(1, 2).transpose(1, 2)
        read = self.read(columns)[0].transpose(1, 2)
        near = self.near(functional.pad(read, (2, 2), mode="reflect")).relu()
        return self.named(near.transpose(1, 2)).log_softmax(2)


def train(steps, batch, device):
    torch.manual_seed(0)
    images, texts, lengths = strips(8 * batch, torch.Generator().manual_seed(0))
    net = CRNN().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    criterion = nn.CTCLoss(blank=BLANK, zero_infinity=True)
    for step in range(steps):
        chosen = slice(step % 8 * batch, (step % 8 + 1) * batch)
        log_probs = net(images[chosen].to(device)).transpose(0, 1)
        times = torch.full((batch,), log_probs.shape[0])
        loss = criterion(log_probs, texts[chosen].to(device), times, lengths[chosen])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    return net, loss.item()


if __name__ == "__main__":
    options = parser.parse_args()
    net, loss = train(options.steps, options.batch, torch.accelerator.current_accelerator() or "cpu")
    state = torch.cat([one.detach().cpu().flatten() for one in net.parameters()])
    print(f"{loss:.6f}", hashlib.sha256(state.numpy().tobytes()).hexdigest())
