"""An audit names the line of a sample that no key can hold, and is silent on the nearest clean one."""

import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from samebits.base.errors import UsageError
from samebits.data import audit
from samebits.data.line_tracer import SampleTracer


class Base(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 100


class Unseeded(Base):
    def __getitem__(self, index: int) -> Any:
        scale = 2.0
        rng = np.random.default_rng()  # <- unkeyed
        return rng.normal() * scale


class Counting(Base):
    def __init__(self) -> None:
        self.count = 0

    def __getitem__(self, index: int) -> Any:
        self.count += 1  # <- carried
        return torch.tensor([index, self.count % 2])


class Remembering(Base):
    """What was seen before is mixed in."""

    def __init__(self) -> None:
        self.seen: list[float] = [0.0]

    def __getitem__(self, index: int) -> Any:
        value = random.random()
        self.seen.append(value)  # <- carried
        return value + self.seen[-2]


class Clock(Base):
    def __getitem__(self, index: int) -> Any:
        return {"index": index, "at": time.time_ns()}  # <- unkeyed


class Helper(Base):
    """In a function that the dataset calls."""

    def __getitem__(self, index: int) -> Any:
        return torch.ones(3) * entropy()


def entropy() -> int:
    return int.from_bytes(os.urandom(2), "little")  # <- unkeyed


class TorchLoader(Base):
    """Held by the dataset that is audited."""

    def __init__(self) -> None:
        self.inner = torch.utils.data.ConcatDataset([Counting()])

    def __getitem__(self, index: int) -> Any:
        return self.inner[index]


class Caching(Base):
    """What was drawn in the first epoch is handed over in all others."""

    def __init__(self) -> None:
        self.cache: dict[int, float] = {}

    def __getitem__(self, index: int) -> Any:
        if index not in self.cache:
            self.cache[index] = random.random()  # <- carried
        return self.cache[index]


class Branching(Base):
    def __getitem__(self, index: int) -> Any:
        if os.urandom(4) < b"\x80":
            return index
        return -1


class Clean(Base):
    """Draws from everything that can be keyed, and keeps a cache that changes nothing."""

    def __init__(self) -> None:
        self.rng: Any = None
        self.cache: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        if self.rng is None:
            self.rng = np.random.default_rng(0)
        self.cache.setdefault(index, index * 2)
        return self.cache[index] + self.rng.normal() + random.random() + np.random.rand() + torch.rand(2).sum()


@pytest.mark.parametrize("kind", [Unseeded, Counting, Remembering, Clock, Helper, TorchLoader, Caching])
def test_the_line_is_named(kind: Any) -> None:
    """And what kind of dependence it is."""
    found = audit(kind())
    lines = Path(__file__).read_text().splitlines()

    assert not found.is_clean
    for finding in found.findings:
        assert finding.site is not None
        assert lines[finding.site.line - 1].endswith(f"# <- {finding.kind}"), str(finding)
        assert str(finding.site.line) in str(finding)
    owner = {Helper: entropy, TorchLoader: Counting.__getitem__}.get(kind, kind.__getitem__)
    first = owner.__code__.co_firstlineno
    assert first < found.findings[0].site.line < first + 5  # type: ignore[union-attr]


def test_another_way_through_the_code_is_told() -> None:
    """A branch that nobody can key: which line came next differs, or what is returned there."""
    found = [audit(Branching(), range(8)) for _ in range(4)]

    assert any(finding.kind == "unkeyed" for one in found for finding in one.findings)


def test_a_clean_dataset_is_clean() -> None:
    """Everything it draws is keyed, the cache changes nothing, and the main process's generators stand."""
    random.seed(3)
    before = random.getstate()

    assert audit(Clean()).is_clean
    assert str(audit(Clean(), [5, 6])) == "2 samples, fetched twice in two orders: the same bits"
    assert random.getstate() == before


def test_values_of_every_kind_can_be_compared() -> None:
    """Objects in arrays by what they are, not by where they lie; tensors that are views of another kind."""

    class Strange(Base):
        def __getitem__(self, index: int) -> Any:
            number = torch.tensor([1j * index])
            return np.array([str(index) * 3, [index]], dtype=object), number.conj(), number.imag.neg(), torch.empty(0)

    assert audit(Strange()).is_clean


def test_what_cannot_be_audited() -> None:
    """A stream has no indices; an empty dataset has no samples."""

    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter([1])

    with pytest.raises(UsageError, match="Stream is iterable"):
        audit(Stream())
    with pytest.raises(UsageError, match="the dataset is empty"):
        audit([])


def test_what_is_carried_may_begin_as_nothing() -> None:
    """An attribute that is made with None is a change like any other; following a sample never raises into it."""

    class Late(Base):
        def __getitem__(self, index: int) -> Any:
            if index == 1:
                self.last = None
            return index

    found: list[Any] = []
    tracer, dataset = SampleTracer(lambda site, name: found.append((site.source.strip(), name))), Late()
    samples = [tracer(lambda index=index: dataset[index], list, dataset) for index in range(3)]

    assert samples == [0, 1, 2]
    assert found == [("self.last = None", "self.last")]
