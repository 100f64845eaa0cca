"""A training small enough to be resumed at every point: a dataset that draws, a model that drops, and what it saw."""

import hashlib
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

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


class Gated(nn.Module):
    """Drops by a generator that it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = torch.Generator().manual_seed(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (torch.rand(x.shape, generator=self.rng) > 0.1) if self.training else x


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
