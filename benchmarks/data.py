"""What keying every sample costs, beside torch's own DataLoader and other ways, side by side in one run.

    python benchmarks/data.py

Loaders take turns, batch by batch without workers and epoch by epoch with them; ratios are taken pair by pair. What is
installed of grain and torchdata (`pip install 'samebits[peers]'`) is timed on the same samples.
"""

import importlib.util
import io
import logging
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import PIL
import torch
from PIL import Image, ImageEnhance

import samebits.data

IMAGES, BATCH, SIZE = 128, 16, 224
ROUNDS = 12
ROWS = 20_000


def jpegs() -> list[bytes]:
    """Photographs as far as a decoder can tell: smooth colours with some noise, 500 × 375."""
    noise = np.random.default_rng(0)
    made = []
    for _ in range(IMAGES):
        coarse = Image.fromarray(noise.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((500, 375), Image.BICUBIC)
        pixels = np.asarray(coarse, dtype=np.int16) + noise.integers(-12, 13, (375, 500, 3), dtype=np.int16)
        buffer = io.BytesIO()
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(buffer, "JPEG", quality=90)
        made.append(buffer.getvalue())
    return made


def augmented(raw: bytes, draw: Any) -> torch.Tensor:
    """Decode, crop, flip, colour jitter; `draw` is a `random.Random` or the module."""
    image = Image.open(io.BytesIO(raw)).convert("RGB")
    side = draw.randint(180, 375)
    left, top = draw.randint(0, image.width - side), draw.randint(0, image.height - side)
    image = image.resize((SIZE, SIZE), Image.BILINEAR, box=(left, top, left + side, top + side))
    if draw.random() < 0.5:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = enhance(image).enhance(draw.uniform(0.6, 1.4))
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)


class Photographs(torch.utils.data.Dataset[Any]):
    """Draws from the global generators, as augmentations do."""

    def __init__(self, raw: list[bytes]) -> None:
        self.raw = raw

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: int) -> torch.Tensor:
        return augmented(self.raw[index], random)


class Naive(Photographs):
    """Seeds everything for every sample by the functions that everybody knows."""

    def __getitem__(self, index: int) -> torch.Tensor:
        torch.manual_seed(index)
        random.seed(index)
        np.random.seed(index)
        return super().__getitem__(index)


class Rows(torch.utils.data.Dataset[Any]):
    """A tensor in memory: next to no work, so that what is added shows."""

    def __init__(self) -> None:
        self.rows = torch.randn(ROWS, 32)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.rows[index]


class NaiveRows(Rows):
    __getitem__ = lambda self, index: (torch.manual_seed(index), super().__getitem__(index))[1]  # noqa: E731


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


Way = Callable[[], Iterator[Any]]


def grain_batches(raw: list[bytes]) -> Way:
    logging.disable(logging.WARNING)
    import grain

    def one(index: int, generator: np.random.Generator) -> np.ndarray[Any, Any]:
        return augmented(raw[index], random.Random(int(generator.integers(2**63)))).numpy()

    data = grain.MapDataset.range(len(raw)).seed(0).random_map(one).batch(BATCH)
    return lambda: iter(data[number] for number in range(len(data)))


def photograph_ways(raw: list[bytes], workers: int) -> dict[str, Way]:
    options: dict[str, Any] = {"batch_size": BATCH, "num_workers": workers, "persistent_workers": workers > 0}
    own = samebits.data.DataLoader(Photographs(raw), seed=0, **options)
    plain, naive = (torch.utils.data.DataLoader(kind(raw), **options) for kind in (Photographs, Naive))
    ways: dict[str, Way] = {
        "torch": lambda: iter(plain),
        "samebits": lambda: iter(own),
        "naive": lambda: iter(naive),
    }
    if has("torchdata"):
        from torchdata.stateful_dataloader import StatefulDataLoader

        stateful = StatefulDataLoader(Photographs(raw), **options)
        ways["torchdata"] = lambda: iter(stateful)
    if has("grain") and not workers:
        # Its processes end with each epoch or work ahead while others have their turn, so they are not compared.
        ways["grain"] = grain_batches(raw)
    return ways


def seconds_by_batch(ways: dict[str, Way], rounds: int) -> dict[str, list[float]]:
    """Batch by batch, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        iterators = {name: way() for name, way in ways.items()}
        names = list(ways)[turn % len(ways) :] + list(ways)[: turn % len(ways)]
        for _ in range(IMAGES // BATCH):
            for name in names:
                start = time.perf_counter()
                next(iterators[name])
                seconds[name].append(time.perf_counter() - start)
    return seconds


def seconds_by_epoch(ways: dict[str, Way], rounds: int) -> dict[str, list[float]]:
    """Epoch by epoch, in turns; the first is a warm-up."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds + 1):
        names = list(ways)[turn % len(ways) :] + list(ways)[: turn % len(ways)]
        for name in names:
            start = time.perf_counter()
            for _ in ways[name]():
                pass
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def spread(values: list[float], digits: int = 3) -> str:
    low, *_, high = statistics.quantiles(values, n=10)
    middle = statistics.median(values)
    return f"{middle:.{digits}f}   ({low:.{digits}f} to {high:.{digits}f}, the middle 80 % of {len(values)})"


def print_ratios(workers: int, seconds: dict[str, list[float]], samples: int) -> None:
    per_sample = statistics.median(seconds["torch"]) / samples * 1e3
    print(f"\n{workers} workers, {per_sample:.2f} ms a sample in torch's loader\nover torch's")
    for name, own in seconds.items():
        if name != "torch":
            ratios = [one / plain for one, plain in zip(own, seconds["torch"], strict=True)]
            print(f"  {name:<12} {spread(ratios)}")


def row_ways() -> dict[str, Way]:
    rows, naive = Rows(), NaiveRows()
    own = samebits.data.DataLoader(rows, batch_size=64, seed=0)
    plain, seeded = (torch.utils.data.DataLoader(one, batch_size=64) for one in (rows, naive))
    return {"torch": lambda: iter(plain), "samebits": lambda: iter(own), "naive": lambda: iter(seeded)}


def main() -> None:
    torch.set_num_threads(1)
    versions = f"torch {torch.__version__}, Python {platform.python_version()}, Pillow {PIL.__version__}"
    print(f"{versions}, one thread\nJPEG 500 × 375, decoded, cropped to {SIZE}², flipped, jittered; batches of {BATCH}")
    raw = jpegs()
    print_ratios(0, seconds_by_batch(photograph_ways(raw, 0), ROUNDS), BATCH)
    print_ratios(2, seconds_by_epoch(photograph_ways(raw, 2), 2 * ROUNDS), IMAGES)
    print("\nrows of a tensor in memory, 0 workers, µs added to each sample")
    seconds = seconds_by_epoch(row_ways(), ROUNDS)
    for name in ("samebits", "naive"):
        added = [(a - b) / ROWS * 1e6 for a, b in zip(seconds[name], seconds["torch"], strict=True)]
        print(f"  {name:<12} {spread(added, 1)}")


if __name__ == "__main__":
    main()
