"""The same bits for any workers, prefetching, ranks, resumption and start method."""

import functools
import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.augment import KINDS, LENGTH, epoch, global_states, loader

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

Epochs = list[list[list[tuple[int, str]]]]
WAYS: list[dict[str, Any]] = [{}, {"persistent_workers": True}, {"prefetch_factor": 5}]
EPOCHS = 2


@functools.cache
def plain(kind: str) -> Epochs:
    """What every cell has to be: fetched in the main process, by one rank, without a break."""
    fetched = loader(kind)
    return [epoch(fetched) for _ in range(EPOCHS)]


def joined(parts: list[Epochs]) -> Epochs:
    """The ranks' parts of each batch, put together."""
    return [[list(itertools.chain(*part)) for part in zip(*epochs, strict=True)] for epochs in zip(*parts, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_samples_differ_and_repeat(kind: str) -> None:
    """Augmented ones are others in the next epoch and for another seed; otherwise all of this would prove nothing."""
    first, second = plain(kind)
    other = epoch(loader(kind, seed=8))

    assert sorted(index for batch in first for index, _ in batch) == list(range(LENGTH))
    assert [index for batch in first for index, _ in batch] != [index for batch in second for index, _ in batch]
    if kind != "none":
        assert not set(itertools.chain(*first)) & set(itertools.chain(*second))
        assert not set(itertools.chain(*first)) & set(itertools.chain(*other))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("workers", "way"), [(0, 0), (1, 1), (2, 0), (4, 2)])
def test_workers_and_prefetching(kind: str, workers: int, way: int) -> None:
    """Every way to hold workers, for two epochs."""
    fetched = loader(kind, workers, **WAYS[way])

    assert [epoch(fetched) for _ in range(EPOCHS)] == plain(kind)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("forkserver", "mixed"),
        *(pytest.param("spawn", kind, marks=pytest.mark.slow) for kind in ("mixed", "vision") if kind in KINDS),
    ],
)
def test_start_methods(method: str, kind: str) -> None:
    """A worker that imports everything anew; the mixed kind draws from everything there is."""
    fetched = loader(kind, 1, multiprocessing_context=method, persistent_workers=True)

    assert [epoch(fetched) for _ in range(EPOCHS)] == plain(kind)


cells = st.fixed_dictionaries(
    {
        "kind": st.sampled_from([*KINDS]),
        "workers": st.sampled_from([0, 1, 2]),
        "way": st.sampled_from(WAYS),
        "ranks": st.integers(1, 3),
        "stop": st.integers(0, 4),
        "workers_after": st.sampled_from([0, 2]),
        "ranks_after": st.integers(1, 3),
        "broken_off": st.booleans(),
    }
)


@settings(max_examples=12, deadline=None)
@given(cells)
def test_any_cell(cell: dict[str, Any]) -> None:
    """Begun with some workers and ranks, after an epoch that was broken off or not, resumed with others."""
    kind, workers = cell["kind"], cell["workers"]
    states = []
    for rank in range(cell["ranks"]):
        path = cell["way"] if workers else {}
        first = loader(kind, workers, rank=rank, world_size=cell["ranks"], **path)
        if cell["broken_off"]:
            next(iter(first))
        iterator = iter(first)
        for _ in range(cell["stop"]):
            next(iterator)
        states.append(first.state_dict())
    parts = []
    for rank in range(cell["ranks_after"]):
        second = loader(kind, cell["workers_after"], rank=rank, world_size=cell["ranks_after"])
        second.load_state_dict(states[0])
        parts.append([epoch(second)])

    assert all(state == states[0] for state in states)
    assert joined(parts) == [plain(kind)[int(cell["broken_off"])][cell["stop"] :]]


@pytest.mark.parametrize("workers", [0, 2])
def test_global_generators_stand_where_they_stood(workers: int) -> None:
    """Python's, NumPy's with its cached Gaussian, and torch's; and other ones give the same batches."""
    random.seed(workers)
    np.random.seed(workers)
    np.random.randn()
    torch.manual_seed(workers)
    before, threads = global_states(), torch.get_num_threads()
    batches = epoch(loader("mixed", workers))

    assert (global_states(), torch.get_num_threads()) == (before, threads)
    assert batches == plain("mixed")[0]
