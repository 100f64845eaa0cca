"""Samples that raise: named, or left out alike for every number of workers."""

from typing import Any

import pytest
import torch

from samebits.base.errors import UsageError
from samebits.data import DataLoader, Mapped

BROKEN = (3, 8, 9, 10, 11, 17)


class Corrupt(torch.utils.data.Dataset[Any]):
    """Some samples cannot be read; all others draw."""

    def __init__(self, broken: tuple[int, ...] = BROKEN) -> None:
        self.broken = broken

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> tuple[int, torch.Tensor]:
        if index in self.broken:
            raise OSError(f"image {index} is truncated")
        return index, torch.rand(2)


def failure(loader: DataLoader) -> tuple[type[Exception], str]:
    """What iterating raises: its type, and its message with notes. The error itself would keep the workers alive."""
    try:
        list(loader)
    except Exception as error:
        return type(error), "\n".join([str(error), *getattr(error, "__notes__", ())])
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_names_the_sample(workers: int) -> None:
    """Its type stays, and so does its message."""
    loader = DataLoader(Corrupt((17,)), batch_size=4, num_workers=workers, shuffle=True, seed=0)

    kind, text = failure(loader)

    assert kind is OSError
    assert "image 17 is truncated" in text
    assert "while fetching sample 17, number " in text


def batches(workers: int, **options: Any) -> tuple[list[Any], list[Any], Any]:
    loader = DataLoader(Corrupt(), batch_size=4, num_workers=workers, seed=0, on_error="skip", **options)
    found = [(indices.tolist(), images.tolist()) for indices, images in loader]
    return found, loader.skipped, loader.state_dict()


def test_skipped_samples_are_the_same_for_every_number_of_workers() -> None:
    """The batch is shorter, one without any sample is left out, and all of them are listed and counted."""
    plain, skipped, state = batches(0)

    assert [indices for indices, _ in plain] == [[0, 1, 2], [4, 5, 6, 7], [12, 13, 14, 15], [16, 18, 19]]
    assert [index for index, _ in skipped] == list(BROKEN)
    assert skipped[0].error == "OSError: image 3 is truncated"
    assert state["skipped"] == len(BROKEN)
    assert batches(2) == batches(1, persistent_workers=True) == (plain, skipped, state)


def test_skipping_goes_on_after_a_resume() -> None:
    """The position counts what was left out; so does the number of skipped samples."""
    first = DataLoader(Corrupt(), batch_size=4, seed=0, on_error="skip")
    iterator = iter(first)
    for _ in range(3):
        next(iterator)
    second = DataLoader(Corrupt(), batch_size=4, num_workers=2, seed=0, on_error="skip")
    second.load_state_dict(first.state_dict())

    assert first.state_dict()["samples"] == 16
    assert [indices.tolist() for indices, _ in second] == [[16, 18, 19]]
    assert second.state_dict()["skipped"] == len(BROKEN)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_collate_is_never_skipped(workers: int) -> None:
    """It is no sample's; it names the batch."""

    def collate(samples: list[Any]) -> Any:
        raise ValueError("sizes differ")

    loader = DataLoader(Corrupt(()), 4, num_workers=workers, collate_fn=collate, seed=0, on_error="skip")

    kind, text = failure(loader)

    assert kind is ValueError
    assert "sizes differ" in text
    assert "while collating samples [0, 1, 2, 3]" in text


def decoded(number: int) -> torch.Tensor:
    if number in BROKEN:
        raise OSError(f"element {number} is truncated")
    return number + torch.rand(1)


def test_a_stream_skips_what_its_function_raises() -> None:
    """And refuses to skip what the stream itself raises, which ends it."""
    found = []
    for workers in (0, 2):
        loader = DataLoader(Mapped(range(20), decoded), 4, num_workers=workers, seed=0, on_error="skip")
        found.append(([batch.tolist() for batch in loader], loader.skipped))

    assert found[0] == found[1]
    assert [index for index, _ in found[0][1]] == list(BROKEN)
    with pytest.raises(UsageError, match="cannot leave out elements of a stream"):
        DataLoader(Numbers(), 4, seed=0, on_error="skip")


class Numbers(torch.utils.data.IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(20))
