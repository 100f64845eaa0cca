"""Objects of the program's own classes: in a batch, in what is returned, and in what is saved."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import samebits
from samebits.comparison.locate import first_divergence
from samebits.comparison.runs import saved_values_agree
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Cut, Journal, Unseen, read_notes


class Graph:
    """As PyG's `Batch` is: tensors in a dictionary of an object in an object, and a way back."""

    def __init__(self, x: torch.Tensor) -> None:
        self._store, self.made_at = Store(x, self), id(self)


class Store:
    __slots__ = ("_mapping", "_parent")

    def __init__(self, x: torch.Tensor, parent: Graph) -> None:
        self._mapping, self._parent = {"x": x}, parent


@dataclass(slots=True)
class Slotted:
    x: torch.Tensor


class Closed:
    """Nothing can be read of it from outside."""

    __slots__ = ()
    held: Any = None

    def __init__(self, x: torch.Tensor) -> None:
        type(self).held = x


class Reading(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def training(made: Callable[[torch.Tensor], Any], read: Callable[[Any], torch.Tensor], value: float) -> None:
    torch.manual_seed(0)
    model = Reading()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch, _label in DataLoader([0, 1], batch_size=1, collate_fn=lambda _: (made(torch.full((1, 2), value)), 1)):
        optimizer.zero_grad()
        model(read(batch)).sum().backward()
        optimizer.step()


@pytest.mark.parametrize(
    ("made", "read", "name"),
    [
        (Graph, lambda batch: batch._store._mapping["x"], "0[0]._store._mapping.x"),
        (Slotted, lambda batch: batch.x, "0[0].x"),
        (Closed, lambda batch: batch.held, "1[0]"),
    ],
    ids=["graph", "slots", "closed"],
)
def test_a_batch_of_a_class_of_its_own_is_data(made: Any, read: Any, name: str, tmp_path: Path) -> None:
    """Its tensors are; where it cannot be looked into, what the model is given is, and it is said."""
    for folder, value in (("a", 1.0), ("again", 1.0), ("b", 2.0)):
        with samebits.record(tmp_path / folder):
            training(made, read, value)
    found = samebits.compare(tmp_path / "a", tmp_path / "b").divergence

    assert samebits.compare(tmp_path / "a", tmp_path / "again").same
    assert found is not None
    assert (found.step, found.stream, found.name) == (0, "batch", name)
    assert [note.what for note in read_notes(tmp_path / "a", Unseen)] == (
        ["what is in a Closed of a batch"] if made is Closed else []
    )


class Kind(Enum):
    CAT = 1
    DOG = 2


class Labels:
    def __init__(self, *words: str) -> None:
        self.words = list(words)


@pytest.mark.parametrize(
    ("name", "one", "other", "path"),
    [
        ("threshold", 0.5, 0.25, ".threshold"),
        ("scale", torch.ones(1), torch.zeros(1), "0.scale"),
        ("kind", Kind.CAT, Kind.DOG, ".kind"),
        ("labels", Labels("cat", "dog"), Labels("dog", "cat"), ".labels.words[0]"),
        ("_best", {"loss": 0.5}, {"loss": 0.75}, "._best.loss"),
    ],
    ids=["number", "tensor", "enum", "permuted texts", "private"],
)
def test_what_a_saved_module_holds_besides_its_tensors_is_saved(
    name: str, one: object, other: object, path: str, tmp_path: Path
) -> None:
    """`net.threshold = …; torch.save(net, …)`: what is saved is the product."""

    def saving(value: object) -> None:
        torch.manual_seed(0)
        net = Reading()
        net(torch.ones(1, 2))
        setattr(net, name, value)
        torch.save(net, tmp_path / "net.pt")

    for folder, value in (("a", one), ("again", one), ("b", other)):
        with samebits.record(tmp_path / folder):
            saving(value)
    a, again, b = (RunFolder(tmp_path / folder).recordings() for folder in ("a", "again", "b"))

    assert all(saved_values_agree(a, again).values())
    if isinstance(one, torch.Tensor):
        found = first_divergence(a, b)
        assert found is not None
        assert (found.stream, found.name) == ("artifact", path)
    else:
        # Nobody knows of two recordings alone that it is no time.
        assert first_divergence(a, b) is None
        assert saved_values_agree(a, b)[path] is False


class Queue(nn.Module):
    """As MoCo has one: memory that is written before anything reads it."""

    def __init__(self, garbage: float, persistent: bool, reads: bool) -> None:
        super().__init__()
        self.linear, self.reads = nn.Linear(2, 2), reads
        self.register_buffer("queue", torch.empty(4, 2).fill_(garbage), persistent=persistent)
        self.queue: torch.Tensor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.linear(x)
        if self.reads:
            out = out + self.queue.mean()
        self.queue[: len(x)] = x
        return out * self.queue[: len(x)]


@pytest.mark.parametrize(("persistent", "rows"), [(False, 4), (False, 2), (True, 4)])
@pytest.mark.parametrize("reads", [False, True])
def test_memory_that_only_samebits_reads_is_no_evidence(
    persistent: bool, rows: int, reads: bool, tmp_path: Path
) -> None:
    """What nobody reads before it is written, and nobody saves, may hold anything; what the model reads may not."""
    for name, garbage in (("a", 1.0), ("b", 2.0)):
        with samebits.record(tmp_path / name):
            torch.manual_seed(0)
            model = Queue(garbage, persistent, reads)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.ones(rows, 2)).sum().backward()
                optimizer.step()

    assert samebits.compare(tmp_path / "a", tmp_path / "b").same == (not reads)


@pytest.mark.parametrize(
    ("before", "cuts"),
    [("demo", ["optimizer"]), ("two demos", ["forward", "optimizer"]), ("gradient", ["backward", "optimizer"])],
)
def test_what_comes_before_the_training_does_not_say_how_it_is_cut(
    before: str, cuts: list[str], tmp_path: Path
) -> None:
    """A demo, with a loss that holds weights, or a gradient that is looked at before an optimizer is made."""
    from samebits.comparison.streams import not_seen, streams_of

    with samebits.record(tmp_path / "run"):
        model, loss = nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1)), nn.NLLLoss(torch.ones(3))
        label = torch.zeros(2, dtype=torch.int64)
        for _ in range(before.count("two") + 1):
            found = loss(model(torch.ones(2, 4)), label)
        if before == "gradient":
            found.backward()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            loss(model(torch.ones(2, 4)), label).backward()
            optimizer.step()
    streams = streams_of([RunFolder(tmp_path / "run").recordings()])

    assert [note.cut for note in read_notes(tmp_path / "run", Cut)] == cuts
    assert not_seen([tmp_path / "run"], streams, 3) == ()


def test_what_is_not_seen_is_said_once(tmp_path: Path) -> None:
    """Files whose names hold a time are one sentence; one step cut at a backward says nothing of an optimizer."""
    from samebits.comparison.streams import not_seen

    for number in (1, 2, 3):
        (tmp_path / f"{number}").mkdir()
        journal = Journal(tmp_path / f"{number}")
        journal.note(Cut("backward"))
        journal.note(Unseen.written([f"log-{number}71.txt", "all.txt"]))
        journal.note(Unseen("what a socket said"))
    folders = [tmp_path / f"{number}" for number in (1, 2, 3)]
    streams = ("loss", "grad", "param", "end")
    written = "what was written to all.txt, log-171.txt, files under other names, in other runs: compare it yourself"

    assert not_seen(folders, streams, 1) == ("what a socket said", written)
    assert not_seen(folders[:1], streams, 2) == (
        "no step of an optimizer of torch's was seen: steps are cut at each backward",
        "what a socket said",
        "what was written to all.txt, log-171.txt: compare it yourself",
    )
