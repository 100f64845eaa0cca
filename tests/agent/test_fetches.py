"""Batches as loaders hand them over: which loader, which epoch of it, which place in that."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from samebits import data
from samebits.resuming.training_notes import read_training_notes
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.spec import RunSpec
from tests.agent.recording import WATCHED, record_in


class Samples(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), float(index))


def fetched(folder: Path, work: Callable[[], object], *, indices: bool = False) -> list[Any]:
    """Loader, epoch and place of every batch, or what it is made of."""
    record_in(folder, work, WATCHED)
    notes = read_training_notes(folder).fetched
    return [note.indices if indices else (note.loader, note.epoch, note.position) for note in notes]


def iterated(*loaders: object) -> Iterator[object]:
    """At one line, as frameworks do."""
    for loader in loaders:
        yield from loader  # type: ignore[misc]


@pytest.mark.parametrize(
    "made",
    [
        lambda samples: torch.utils.data.DataLoader(samples, batch_size=2),
        lambda samples: data.DataLoader(samples, batch_size=2, seed=0),
        lambda _: data.DataLoader(data.Mapped(range(4), float), batch_size=2, seed=0),
    ],
    ids=["torch", "samebits", "mapped"],
)
def test_loaders_of_two_datasets_are_two(tmp_path: Path, made: Callable[[object], object]) -> None:
    """Also where both are of one class and size, and iterated at one line: an evaluation before the first epoch."""
    train, evaluated = made(Samples()), made(Samples())

    found = fetched(tmp_path, lambda: list(iterated(evaluated, train, evaluated, train)))

    assert found[::2] == [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)]
    assert [place for _, _, place in found] == [0, 1] * 4


def test_a_loader_inside_a_loader_leaves_the_outer_one_loading(tmp_path: Path) -> None:
    """What a sample calls after it has iterated another loader is still no call of the program's own."""
    model = torch.nn.Linear(2, 1)

    class Pairs(Samples):
        def __init__(self, inner: object = None) -> None:
            self.inner = inner

        def __getitem__(self, index: int) -> torch.Tensor:
            list(iterated(self.inner or []))
            with torch.no_grad():
                return model(super().__getitem__(index))  # type: ignore[no-any-return]

    def steps(folder: str, inner: object = None) -> int:
        pairs = torch.utils.data.DataLoader(Pairs(inner), batch_size=2)
        record_in(tmp_path / folder, lambda: [model(batch.new_ones(2)).sum().backward() for batch in pairs], RunSpec())
        return RunFolder(tmp_path / folder).recordings()[0].steps

    assert steps("nested", torch.utils.data.DataLoader(Samples())) == steps("plain")


@pytest.mark.parametrize("kind", ["one dataset", "a new one each time", "a list"])
def test_a_loader_made_anew_for_every_epoch_is_one(kind: str, tmp_path: Path) -> None:
    """Whatever becomes of what it loads."""
    kept, before = Samples(), list[object]()

    def train() -> None:
        for _ in range(3):
            # As in `batches = iter(loader)`, the last epoch's is there still when the next one begins.
            before.append(
                samples := kept if kind == "one dataset" else Samples() if kind == "a new one each time" else [0.0] * 4
            )
            list(iterated(torch.utils.data.DataLoader(samples, batch_size=4)))  # type: ignore[arg-type]

    assert fetched(tmp_path, train) == [(0, 0, 0), (0, 1, 0), (0, 2, 0)]


@pytest.mark.parametrize("indices", [list, torch.tensor, np.array], ids=["list", "tensor", "array"])
def test_the_rest_of_an_epoch_is_known_by_its_samples(indices: Callable[[list[int]], Any], tmp_path: Path) -> None:
    """A subset counts from 0, also one of a subset; its first batch is no batch of the beginning."""

    def batches(start: int) -> list[Any]:
        subset = torch.utils.data.Subset(torch.utils.data.Subset(Samples(), range(4)), indices([2, 0, 3, 1][start:]))
        loader = torch.utils.data.DataLoader(subset, batch_size=2)
        return fetched(tmp_path / str(start), lambda: list(loader), indices=True)

    whole, rest = batches(0), batches(2)
    assert len({*whole}) == 2
    assert rest == whole[1:]
