"""Trainings to be resumed: they shuffle, augment, use dropout, AdamW with a schedule, averages, and accumulate."""

import hashlib
import random
from typing import Any

import numpy as np
import torch
from torch import nn

import samebits
from samebits.rng.packing import leaves
from samebits.state import Training

STEPS = 12
ACCUMULATED = 2


class Noisy(torch.utils.data.Dataset[Any]):
    """Augments from a generator of its own, and from the global ones of Python and torch."""

    def __init__(self, samples: int = 40) -> None:
        self.rng = np.random.default_rng(3)
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        noise = self.rng.random() + random.random()
        return torch.full((6,), index / 40) + torch.rand(6) * noise, torch.tensor(index % 3)


class Gated(nn.Module):
    """Drops by a generator that it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = torch.Generator().manual_seed(5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * (torch.rand(x.shape, generator=self.rng) > 0.1) if self.training else x


class Looping:
    """Batch after batch, and step after step."""

    loader: samebits.data.DataLoader
    batches: Any = None

    def batch(self) -> Any:
        while True:
            self.batches = self.batches or iter(self.loader)
            try:
                return next(self.batches)
            except StopIteration:
                self.batches = None

    def step(self) -> None:
        raise NotImplementedError

    def run(self, steps: int) -> Any:
        for _ in range(steps):
            self.step()
        return self


class Loop(Looping):
    """One training, and the parts that it consists of.

    Args:
        seed: of all global generators.
        wrap: what the model is trained in.
        loader: other options of its loader.
    """

    def __init__(self, seed: int = 0, wrap: Any = lambda model: model, **loader: Any) -> None:
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        self.model = nn.Sequential(
            nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), Gated(), nn.Dropout(0.2), nn.Linear(8, 3)
        )
        self.trained = wrap(self.model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, 0.1, total_steps=100)
        self.averaged = torch.optim.swa_utils.AveragedModel(self.model)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=3)
        options = {"batch_size": 4, "shuffle": True, "seed": 7, **loader}
        self.loader = samebits.data.DataLoader(Noisy(), **options)
        self.losses: list[bytes] = []
        self.training = Training(
            model=self.trained,
            optimizer=self.optimizer,
            scheduler=self.scheduler,
            loader=self.loader,
            scaler=self.scaler,
            averaged=self.averaged,
        )
        # As in a script: an iterator that is gone would have left its epoch.
        self.training.loop = self  # type: ignore[attr-defined]

    def micro_step(self) -> None:
        """A batch, forwards and backwards."""
        x, y = self.batch()
        # What a script draws beside: the strength of a penalty, a place to print from.
        penalty = random.random() * 1e-3 + np.random.rand() * 1e-3
        loss = nn.functional.cross_entropy(self.trained(x), y) + penalty * self.model[0].weight.square().sum()
        self.scaler.scale(loss / ACCUMULATED).backward()
        self.losses.append(loss.detach().numpy().tobytes())

    def step(self) -> None:
        """One step of the optimizer."""
        for _ in range(ACCUMULATED):
            self.micro_step()
        self.finish_step()

    def finish_step(self) -> None:
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        self.scheduler.step()
        self.averaged.update_parameters(self.model)
        self.training.steps_done += 1

    def digest(self) -> str:
        """All bits of the training as it stands."""
        return digest_of(self.training.state_dict())


def digest_of(state: Any) -> str:
    """All bits of a state."""
    hasher = hashlib.blake2b(digest_size=16)
    for way, value in leaves(state):
        hasher.update(f"{way} {bits(value)}".encode())
    return hasher.hexdigest()


def bits(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{value.dtype} {tuple(value.shape)} {value.contiguous().numpy().tobytes().hex()}"
