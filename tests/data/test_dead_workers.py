"""Workers that die."""

import contextlib
import gc
import itertools
import os
import signal
import time
from functools import partial

import pytest
import torch

from samebits.base.errors import WorkerDiedError
from samebits.data import DataLoader
from tests.data.augment import Samples


def deadly(number: int, index: int) -> int:
    """One sample kills whoever fetches it."""
    if index == 13:
        # What was fetched before is on its way, and must not be held back by the death.
        time.sleep(0.3)
        os.kill(os.getpid(), number)
    return index


def loader_of(number: int) -> DataLoader:
    return DataLoader(Samples(40, partial(deadly, number)), batch_size=4, num_workers=2, seed=0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_dead_worker_is_told_with_its_sample(number: int) -> None:
    """Which of several workers it was, and what it fetched; the batches before it come through."""
    loader = loader_of(number)
    iterator = iter(loader)
    taken = [next(iterator).tolist() for _ in range(2)]

    with pytest.raises(WorkerDiedError, match=r"while fetching sample 13 \(number 13 of epoch 0\)") as caught:
        list(iterator)
    assert taken == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert loader.state_dict()["samples"] in (8, 12)
    assert isinstance(caught.value, RuntimeError)
    assert "samebits.data.fetch" in str(caught.value)


def test_no_worker_outlives_a_dead_one() -> None:
    """Nor does anybody wait for them: the error keeps nothing alive."""
    gc.disable()
    try:
        before = set(torch.multiprocessing.active_children())
        start = time.monotonic()
        with contextlib.suppress(WorkerDiedError):
            list(loader_of(signal.SIGKILL))
        seconds = time.monotonic() - start

        assert set(torch.multiprocessing.active_children()) == before
        assert seconds < 5
    finally:
        gc.enable()


def test_a_worker_that_stays_alive_is_no_worry() -> None:
    """The nearest legal dataset: the same with a signal that does nothing."""
    assert list(itertools.chain(*(batch.tolist() for batch in loader_of(0)))) == list(range(40))
