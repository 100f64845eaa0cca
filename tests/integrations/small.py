"""A training small enough to be resumed at every point: a dataset that draws, and a model that drops."""

import hashlib
import random
from typing import Any

import numpy as np
import torch
from torch import nn

SAMPLES = 32


class Noisy(torch.utils.data.Dataset[Any]):
    """Draws from four generators, one of them its own; the index is part of the sample."""

    def __init__(self, samples: int = SAMPLES) -> None:
        self.samples = samples
        self.rng = np.random.default_rng(3)

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        noise = random.random() + np.random.rand() + self.rng.random()
        x = torch.full((6,), index / self.samples) + torch.rand(6) * noise
        return {"x": x, "labels": torch.tensor(index % 3), "index": torch.tensor(index)}


def network() -> nn.Module:
    """The same weights every time."""
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def digest(*tensors: torch.Tensor) -> str:
    """Of the bits."""
    hashed = hashlib.blake2b(digest_size=8)
    for one in tensors:
        hashed.update(one.detach().contiguous().numpy().tobytes())
    return hashed.hexdigest()


def weights(model: nn.Module) -> str:
    """Digest of all parameters."""
    return digest(*model.parameters())


def disturb(salt: int) -> None:
    """What another process would have drawn by now."""
    random.seed(salt)
    np.random.seed(salt)
    torch.manual_seed(salt)
