"""Samples that raise: named, or left out alike for every number of workers."""

from typing import Any

import pytest
import torch

from samebits.base.errors import UsageError
from samebits.data import DataLoader, Mapped
from tests.data.augment import Samples

NUMBERS = Samples(20, int)
BROKEN = (3, 8, 9, 10, 11, 17)


def decoded(index: int) -> tuple[int, torch.Tensor]:
    """Some samples cannot be read; all others draw."""
    if index in BROKEN:
        raise OSError(f"image {index} is truncated")
    return index, torch.rand(2)


CORRUPT = Samples(20, decoded)


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
    loader = DataLoader(CORRUPT, batch_size=4, num_workers=workers, sampler=[1, 2, 4, 17], seed=0)

    kind, text = failure(loader)

    assert kind is OSError
    assert "image 17 is truncated" in text
    assert "while fetching sample 17, number 3 of its epoch" in text


def skipping(workers: int = 0, dataset: Any = CORRUPT, **options: Any) -> DataLoader:
    return DataLoader(dataset, batch_size=4, num_workers=workers, seed=0, on_error="skip", **options)


def batches(loader: DataLoader) -> tuple[list[Any], list[Any], Any]:
    found = [(indices.tolist(), images.tolist()) for indices, images in loader]
    return found, loader.skipped, loader.state_dict()


def test_skipped_samples_are_the_same_for_every_number_of_workers() -> None:
    """The batch is shorter, one without any sample is left out, and all of them are listed and counted."""
    plain, skipped, state = batches(skipping())

    assert [indices for indices, _ in plain] == [[0, 1, 2], [4, 5, 6, 7], [12, 13, 14, 15], [16, 18, 19]]
    assert [index for index, _ in skipped] == list(BROKEN)
    assert skipped[0].error == "OSError: image 3 is truncated"
    assert state["skipped"] == len(BROKEN)
    assert batches(skipping(2)) == batches(skipping(1, persistent_workers=True)) == (plain, skipped, state)


def test_skipping_goes_on_after_a_resume() -> None:
    """The position counts what was left out; so does the number of skipped samples."""
    first, second = skipping(), skipping(2)
    iterator = iter(first)
    for _ in range(3):
        next(iterator)
    second.load_state_dict(first.state_dict())

    assert first.state_dict()["samples"] == 16
    assert [indices.tolist() for indices, _ in second] == [[16, 18, 19]]
    assert second.state_dict()["skipped"] == len(BROKEN)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_collate_is_never_skipped(workers: int) -> None:
    """It is no sample's; it names the batch."""

    def collate(samples: list[Any]) -> Any:
        raise ValueError("sizes differ")

    kind, text = failure(skipping(workers, NUMBERS, collate_fn=collate))

    assert kind is ValueError
    assert "sizes differ" in text
    assert "while collating samples [0, 1, 2, 3]" in text


def test_a_stream_skips_what_its_function_raises() -> None:
    """And refuses to skip what the stream itself raises, which ends it."""
    found = [batches(skipping(workers, Mapped(range(20), decoded))) for workers in (0, 2)]

    assert found[0] == found[1]
    assert [index for index, _ in found[0][1]] == list(BROKEN)
    with pytest.raises(UsageError, match="cannot leave out elements of a stream"):
        skipping(dataset=torch.utils.data.ChainDataset([Mapped(range(20), decoded)]))
