"""A training small enough to be resumed at every point: a dataset that draws, a model that drops, and what it saw."""

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tests.state.trainings import Gated as Gated

# Indices of a batch, what was drawn for each sample, digest of the inputs as the model got them.
Row = tuple[tuple[int, ...], tuple[float, ...], str]


@dataclass
class Seen:
    """What one rank's training saw, and the weights that it ended in."""

    rows: list[Row] = field(default_factory=list)
    weights: str = ""

    def note(self, batch: dict[str, torch.Tensor]) -> None:
        self.rows.append((tuple(batch["index"].tolist()), tuple(batch["noise"].tolist()), digest(batch["x"])))

    def since(self, batches: int) -> "Seen":
        """The rest, after so many batches."""
        return Seen(self.rows[batches:], self.weights)


class Noisy(torch.utils.data.Dataset[Any]):
    """Draws from four generators, one of them its own."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.rng = np.random.default_rng(3)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        noise = torch.tensor(random.random() + np.random.rand() + self.rng.random())
        x = torch.full((6,), index / self.samples) + torch.rand(6) * noise
        return {"x": x, "labels": torch.tensor(index % 3), "index": torch.tensor(index), "noise": noise}


class Stream(torch.utils.data.IterableDataset[Any]):
    """The same, one after another; of unknown length."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __iter__(self) -> Iterator[Any]:
        yield from (Noisy(self.samples)[index] for index in range(self.samples))


def network(*layers: nn.Module) -> nn.Sequential:
    """The same weights every time; `layers` are put in front."""
    torch.manual_seed(5)
    return nn.Sequential(*layers, nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def digest(*tensors: torch.Tensor) -> str:
    """Of the bits."""
    hashed = hashlib.blake2b(digest_size=8)
    for one in tensors:
        hashed.update(one.detach().contiguous().numpy().tobytes())
    return hashed.hexdigest()


def disturb(salt: int) -> None:
    """Let global generators stand where another process would have left them."""
    random.seed(salt)
    np.random.seed(salt)
    torch.manual_seed(salt)


def samples_of(*ranks: Seen) -> list[list[tuple[int, float]]]:
    """Index and draw of each sample, global batch by global batch."""
    return [
        [pair for indices, noise, _ in rows for pair in zip(indices, noise, strict=True)]
        for rows in zip(*(seen.rows for seen in ranks), strict=True)
    ]


def checkpoints(folder: Path) -> Iterator[tuple[int, Path]]:
    """Those of which the names begin with how many batches were done: that, and the file."""
    return ((int(path.name[:2]), path) for path in sorted(folder.iterdir()))


def inexact(train: Callable[..., Seen], whole: Seen, folder: Path, **options: Any) -> list[str]:
    """The checkpoints from which the rest of a training is not the same."""
    return [
        path.name
        for done, path in checkpoints(folder)
        if train(None, path, salt=done + 1, **options) != whole.since(done)
    ]
