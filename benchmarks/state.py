"""What a whole training's state costs beyond the states of its model and its optimizer, and what a checkpoint does.

    python benchmarks/state.py

The training is a transformer of 129 modules with AdamW, a schedule, and a loader of 50 000 files whose dataset holds a
generator. Blocks of all sides take turns; shown are medians of the blocks, in processor time, and for
files in time on the clock.
"""

import platform
import random
import statistics
import tempfile
import time

import torch
from torch import nn

import samebits
from samebits.state import Training, preserved

BLOCKS, CALLS = 30, 5


class Files(torch.utils.data.Dataset):
    def __init__(self):
        self.files = [(f"images/{number}.jpg", number % 1000) for number in range(50_000)]
        self.names = [f"class {number}" for number in range(1000)]
        self.rng = random.Random(0)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return self.rng.random()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(width, width), nn.LayerNorm(width), nn.Dropout(0.1)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        return x + self.mlp(self.drop(self.norm(self.first(x))))


def made():
    """The training with its optimizer's state there."""
    torch.manual_seed(0)
    model = nn.Sequential(*(Block(64) for _ in range(16)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=1000)
    loader = samebits.data.DataLoader(Files(), batch_size=8, shuffle=True, seed=0)
    next(iter(loader))
    return model, optimizer, Training(model=model, optimizer=optimizer, scheduler=scheduler, loader=loader)


def seconds(function, clock=time.process_time):
    """Of one call, the mean of a block."""
    begin = clock()
    for _ in range(CALLS):
        function()
    return (clock() - begin) / CALLS


def main():
    print(f"torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}\n")
    model, optimizer, training = made()
    bare = Training(model=model, optimizer=optimizer)

    def torchs():
        return model.state_dict(), optimizer.state_dict()

    def packed():
        # What of ours grows with the model and the optimizer: their states as plain data, and the lists of their names.
        return bare._packed(is_shared=True)

    def evaluated():
        with preserved(model):
            pass

    sides = {
        "torch's own state dicts of model and optimizer": torchs,
        "the same as plain data, with names": packed,
        "Training.state_dict()": training.state_dict,
        "  of that, generators, gradients, modes, loader": lambda: training._rank_section(gradients=True),
        "  of that, looking for generators": training._generators,
        "preserved(model)": evaluated,
    }
    blocks = [{name: seconds(side) for name, side in sides.items()} for _ in range(BLOCKS)]
    for name in sides:
        print(f"{name:<50} {statistics.median(block[name] for block in blocks) * 1000:>8.3f} ms")
    rest = statistics.median(
        block["Training.state_dict()"] - block["the same as plain data, with names"] for block in blocks
    )
    print(f"\neverything but model and optimizer: {rest * 1000:.3f} ms")
    saved(model, training)


def saved(model, training):
    """Writing and reading a checkpoint, beside torch's own way without fsync and digest."""
    with tempfile.TemporaryDirectory() as folder:
        state = training.state_dict()

        def plain():
            torch.save(state, f"{folder}/plain.pt")

        steps = iter(range(10**6))
        times = [
            [
                seconds(plain, time.perf_counter),
                seconds(lambda: training.save(f"{folder}/ckpt", next(steps)), time.perf_counter),
            ]
            for _ in range(BLOCKS)
        ]
        resumed = [seconds(lambda: training.resume(f"{folder}/ckpt"), time.perf_counter) for _ in range(BLOCKS)]
    plain_seconds, save_seconds = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(save / plain for plain, save in times)
    print(
        f"torch.save {plain_seconds * 1000:.1f} ms, Training.save {save_seconds * 1000:.1f} ms ({ratio:.2f} times), "
        f"resume {statistics.median(resumed) * 1000:.1f} ms"
    )


if __name__ == "__main__":
    main()
