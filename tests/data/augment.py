"""Datasets that augment in every way people do, and loaders over them; importable by spawned workers."""

import functools
import hashlib
import importlib.util
import pickle
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from samebits.data import DataLoader, sample_generator
from tests.data.vision import transforms_v2

LENGTH = 23
BATCH = 6
SEED = 7


class Samples(torch.utils.data.Dataset[Any]):
    """So many of them, each what a function makes of its index."""

    def __init__(self, length: int, sample: Callable[[int], Any]) -> None:
        self.length, self.sample = length, sample

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.sample(index)


class Images(torch.utils.data.Dataset[Any]):
    """Small images, each through a transform; with its index and a reduction, whose bits depend on threads."""

    def __init__(self, transform: Any, length: int) -> None:
        self.transform, self.length = transform, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor, torch.Tensor]:
        image = np.arange(3 * 8 * 8, dtype=np.float32).reshape(8, 8, 3) / 192 + index
        wide = torch.arange(40000.0) * 1e-3 + index
        return index, torch.as_tensor(self.transform(image)), (wide - wide.mean()) / wide.std()


def none(image: Any) -> Any:
    return image


def python(image: Any) -> Any:
    flipped = image[::-1].copy() if random.random() < 0.5 else image
    return flipped + random.gauss(0, 1)


def numpy_global(image: Any) -> Any:
    # An odd number of Gaussians leaves one in NumPy's cache.
    return image + np.random.randn(3)[0] + np.random.randint(256)


class NumpyHeld:
    """Generators of its own, of every kind."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.others = [np.random.Generator(np.random.Philox(1)), np.random.RandomState(2), random.Random(3)]
        self.torch = torch.Generator().manual_seed(4)

    def __call__(self, image: Any) -> Any:
        a, b, c = self.others
        drawn = torch.rand(1, generator=self.torch).item()
        return image + self.rng.normal() + a.normal() + b.randn() + c.random() + drawn


def torch_global(image: Any) -> Any:
    return torch.from_numpy(image) + torch.rand(1) + torch.randn(1)


def explicit(image: Any) -> Any:
    drawn = [sample_generator("numpy").normal(), sample_generator("python").random()]
    return torch.from_numpy(image) + torch.rand(1, generator=sample_generator()) + sum(drawn)


class Vision:
    """torchvision v2."""

    def __init__(self) -> None:
        v2 = transforms_v2()
        self.transform = v2.Compose([v2.RandomHorizontalFlip(), v2.RandomResizedCrop(6), v2.ColorJitter(0.4, 0.4)])

    def __call__(self, image: Any) -> Any:
        return self.transform(torch.from_numpy(image).permute(2, 0, 1) / 32)

    def __reduce__(self) -> Any:
        # A spawned worker has to prepare torchvision, too.
        return Vision, ()


class Albumentations:
    """albumentations, which gives all of its transforms one seed."""

    def __init__(self) -> None:
        import albumentations as A

        self.transform = A.Compose([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5), A.GaussNoise(p=1.0)], seed=1)

    def __call__(self, image: Any) -> Any:
        return self.transform(image=image / 32)["image"]


class Mixed:
    """One after another."""

    def __init__(self) -> None:
        self.held = NumpyHeld()

    def __call__(self, image: Any) -> Any:
        return explicit(np.asarray(torch_global(self.held(numpy_global(python(image))).astype(np.float32))))


# Name → what makes the transform; what is not installed is left out.
KINDS: dict[str, Callable[[], Any]] = {
    "none": lambda: none,
    "python": lambda: python,
    "numpy_global": lambda: numpy_global,
    "numpy_held": NumpyHeld,
    "torch": lambda: torch_global,
    "explicit": lambda: explicit,
    "mixed": Mixed,
    **({"vision": Vision} if importlib.util.find_spec("torchvision") else {}),
    **({"albumentations": Albumentations} if importlib.util.find_spec("albumentations") else {}),
}
made = functools.cache(lambda kind: KINDS[kind]())


def images(kind: str, length: int = LENGTH) -> Images:
    """Through a kind of augmentation."""
    return Images(made(kind), length)


def mixup(samples: list[Any]) -> Any:
    """A collate function that draws."""
    indices, images, wide = torch.utils.data.default_collate(samples)
    return indices, images + torch.rand(1) + random.random(), wide


def loader(kind: str, workers: int = 0, **options: Any) -> DataLoader:
    """A shuffled one over a kind of augmentation."""
    given = {"batch_size": BATCH, "shuffle": True, "seed": SEED, **options}
    return DataLoader(images(kind), num_workers=workers, **given)


def bits(batch: Any) -> list[tuple[int, str]]:
    """Index and digest of each sample of a batch."""
    indices, *tensors = batch
    rows = zip(indices.tolist(), *[tensor.numpy() for tensor in tensors], strict=True)
    return [(index, hashlib.blake2b(b"".join(map(bytes, rest))).hexdigest()[:16]) for index, *rest in rows]


def epoch(batches: Iterable[Any]) -> list[list[tuple[int, str]]]:
    return [bits(batch) for batch in batches]


def global_states() -> bytes:
    """Where every global generator stands, NumPy's cached Gaussian included."""
    numpy_state = np.random.get_state(legacy=False)
    return pickle.dumps((random.getstate(), numpy_state, torch.get_rng_state().tolist()))
