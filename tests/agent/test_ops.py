"""The recorder of operations: its window, the accelerator's way on the CPU, forks, and what it leaves behind."""

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

import samebits
from samebits.agent.ops import mode
from samebits.comparison.ops import first_op_divergence
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import OpDiverged, Unseen, read_notes
from samebits.runfolder.ops import CHUNK
from samebits.runfolder.spec import OpWindow
from tests.agent.recording import recorded, rows


def train(noise: float = 0.0, steps: int = 4) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 4)).square().mean()
        if step == 2:
            loss = loss + loss.detach() * noise
        loss.backward()
        optimizer.step()


def test_only_the_window_is_recorded(tmp_path: Path) -> None:
    """The steps that were asked for, each from its first operation on; and all of them without a window."""
    whole = rows(recorded(tmp_path / "whole", train))
    window = rows(recorded(tmp_path / "window", train, OpWindow(1, 2)))

    assert {row.step for row in whole} == {0, 1, 2, 3}
    assert {row.step for row in window} == {1, 2}
    assert [(row.step, row.index, row.kind.op) for row in window] == [
        (row.step, row.index, row.kind.op) for row in whole if row.step in (1, 2)
    ]


def test_a_window_that_a_forward_opens_knows_its_module(tmp_path: Path) -> None:
    """Without an optimizer a step begins with the call of the model: what it does is told as in a whole recording."""

    def infer() -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        with torch.no_grad():
            for _ in range(4):
                model(torch.ones(16, 4))

    def told(window: OpWindow | None, name: str) -> list[tuple[int, str, str, str]]:
        found = rows(recorded(tmp_path / name, infer, window))
        return [(row.step, row.kind.op, row.kind.pass_, row.kind.module) for row in found if row.step == 2]

    whole = told(None, "whole")

    assert {module for _, _, _, module in whole} != {""}
    assert told(OpWindow(2, 2), "window") == whole


def test_the_accelerators_way_finds_the_same_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests that are fetched many operations later name the same operation."""
    near = first_op_divergence(recorded(tmp_path / "a", train), recorded(tmp_path / "b", lambda: train(noise=0.1)))
    monkeypatch.setattr(mode, "_is_cpu", lambda tensor: False)
    far_a, far_b = recorded(tmp_path / "c", train), recorded(tmp_path / "d", lambda: train(noise=0.1))
    far = first_op_divergence(far_a, far_b)
    twin = first_op_divergence(far_a, recorded(tmp_path / "e", train))

    assert near is not None
    assert far is not None
    assert (far.step, far.index, far.finding, far.names) == (near.step, near.index, near.finding, near.names)
    assert twin is None
    assert all(all(row.outs.values()) for row in rows(far_a))


def test_reading_along_notes_the_first_difference(tmp_path: Path) -> None:
    """And keeps its operands; a run that agrees keeps none."""
    recorded(tmp_path / "a", train)
    spec = OpWindow(against=str(tmp_path / "a"))
    recorded(tmp_path / "same", train, spec)
    recorded(tmp_path / "other", lambda: train(noise=0.1), spec)
    (note,) = read_notes(tmp_path / "other", OpDiverged)

    assert not (tmp_path / "same" / "operands").exists()
    assert (note.rank, note.step) == (0, 2)
    assert (tmp_path / "other" / "operands" / f"rank0.step2.op{note.index}.json").exists()


def read_twice(source: float) -> None:
    """What comes from outside is read by two operations, and followed by a draw."""
    torch.manual_seed(int(source * 10))
    outside = torch.frombuffer(bytearray(b"\1" * 32), dtype=torch.float32) * 0 + 1
    outside = torch.from_numpy(outside.numpy() * source)
    (outside.sin() + outside.cos() + torch.rand(8)).sum()


@pytest.mark.parametrize(
    ("first", "second", "origins"),
    [
        (train, lambda: train(noise=0.1), ["argument"]),
        (lambda: read_twice(1.0), lambda: read_twice(1.5), ["input", "generator"]),
    ],
    ids=["argument", "input and generator"],
)
def test_with_grafts_the_next_origin_shows(
    first: Callable[[], None], second: Callable[[], None], origins: list[str], tmp_path: Path
) -> None:
    """Both runs get the first one's values at every origin known; what only followed from one is no other."""
    grafts: tuple[str, ...] = ()
    found = []
    for number in range(len(origins) + 1):
        home = tmp_path / str(number)
        home.mkdir()
        a = recorded(home / "a", first, OpWindow(grafts=grafts))
        place = first_op_divergence(a, recorded(home / "b", second, OpWindow(grafts=grafts)))
        if place is None:
            break
        found.append(place.finding)
        recorded(home / "kept", first, OpWindow(keep=((place.step, place.index),), grafts=grafts))
        grafts = (*grafts, str(home / "kept" / "operands" / f"rank0.step{place.step}.op{place.index}.json"))

    assert found == origins


class Nested(torch.autograd.Function):
    """Its backward runs another backward, and so on: deep down the engine goes on in a thread of its own."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, depth: int) -> torch.Tensor:
        ctx.depth = depth
        return x * 1

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.depth > 0:
            with torch.enable_grad():
                inner: Any = Nested.apply(torch.ones(2, requires_grad=True) * 2, ctx.depth - 1)
                Nested.run(inner.sum())
        return grads[0] * 2, None

    run: Callable[[torch.Tensor], None] = torch.Tensor.backward


def test_operations_that_no_python_frame_calls(tmp_path: Path) -> None:
    """In a thread of autograd's there is none; the recording goes on."""

    def work() -> None:
        weights = torch.ones(2, requires_grad=True)
        outer: Any = Nested.apply(weights * 2, 70)
        outer.sum().backward()

    first, second = recorded(tmp_path / "a", work), recorded(tmp_path / "b", work)

    assert sum(row.kind.pass_ == "backward" for row in rows(first)) > 140
    assert first_op_divergence(first, second) is None


def test_reading_along_goes_on_in_a_thread_of_autograd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run's recording, opened in the main thread, is read from there: so it is in a backward on a device."""

    def run(loss: torch.Tensor) -> None:
        for _ in range(0 if threading.get_ident() == main else CHUNK // 4):
            loss.detach().add(1)
        torch.autograd.Variable._execution_engine.run_backward((loss,), (torch.ones(()),), False, False, (), True, True)

    def work() -> None:
        weights = torch.ones(2, requires_grad=True)
        outer: Any = Nested.apply(weights * 2, 70)
        outer.sum().backward()

    main = threading.get_ident()
    monkeypatch.setattr(Nested, "run", run)
    ops = len(rows(recorded(tmp_path / "a", work)))
    recorded(tmp_path / "b", work, OpWindow(against=str(tmp_path / "a")))

    assert ops > 2 * CHUNK
    assert next(read_notes(tmp_path / "b", OpDiverged), None) is None


def test_a_thread_that_does_nothing_with_torch_is_nothing_to_tell(tmp_path: Path) -> None:
    """It begins no training when it ends; one that trains has no operations recorded, and that is said."""

    def noted(work: Callable[[], object]) -> list[str]:
        thread = threading.Thread(target=work)
        recorded(tmp_path / work.__name__, lambda: (train(steps=1), thread.start(), thread.join()))
        return [note.what for note in read_notes(tmp_path / work.__name__, Unseen)]

    assert noted(dict) == []
    assert noted(train) == ["operations of threads other than the main one"]


def test_a_users_mode_above_ours_stays(tmp_path: Path) -> None:
    """A mode that was entered inside the window is still there when the window ends, and sees every operation."""

    class Counting(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            Counting.seen += 1
            return func(*args, **(kwargs or {}))

    def work() -> None:
        with Counting() as counting:
            train()
            assert _get_current_dispatch_mode_stack()[-1] is counting

    alone = Counting.seen
    with Counting():
        train()
    alone, Counting.seen = Counting.seen, 0
    recording = recorded(tmp_path / "run", work, OpWindow(0, 1))

    assert Counting.seen == alone
    assert {row.step for row in rows(recording)} == {0, 1}
    assert not _get_current_dispatch_mode_stack()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_loader_worker_leaves_the_recording_alone(tmp_path: Path) -> None:
    """A forked worker computes with torch; the parent's operations are the parent's."""

    class Data(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> torch.Tensor:
            return torch.full((4,), float(index)).mul(2).sin()

    def work(workers: int) -> None:
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for batch in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=workers):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()

    for workers in (0, 1):
        torch.manual_seed(0)
        with samebits.record(tmp_path / str(workers), level="op"):
            work(workers)
    sines = [
        sum(row.kind.op == "aten::sin" for row in rows(RunFolder(tmp_path / str(workers)).recordings()[0]))
        for workers in (0, 1)
    ]

    assert sines == [8, 0]
    assert samebits.compare(tmp_path / "0", tmp_path / "1").divergence is None


class Slow(torch.utils.data.Dataset[torch.Tensor]):
    """The samples of one worker come late."""

    def __init__(self, late: int) -> None:
        self.late = late

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        if index // 2 % 2 == self.late:
            time.sleep(0.3)
        return torch.full((4,), float(index))


def test_batches_of_workers_may_come_in_any_order(tmp_path: Path) -> None:
    """Which worker is done first changes nothing of what is computed, and no operation either."""

    def work(late: int) -> None:
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = torch.utils.data.DataLoader(Slow(late), batch_size=2, num_workers=2)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()

    a, b = (recorded(tmp_path / str(late), partial(work, late)) for late in (0, 1))

    assert first_op_divergence(a, b) is None
    assert rows(a)
    assert not [row for row in rows(a) if "set_" in row.kind.op]
