"""Memory that other processes and threads write to: no operation is accused of what they did."""

import json
import multiprocessing
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from samebits.agent import shared
from samebits.agent.ops.evidence import lies_in_shared_memory
from samebits.comparison.ops import OpDivergence, first_op_divergence
from samebits.runfolder.notes import SteppedShared, read_notes
from samebits.runfolder.ops import OPERANDS
from samebits.runfolder.spec import OpWindow, RunSpec
from tests.agent.recording import record_in, recorded, rows

fork = multiprocessing.get_context("fork")


def written_elsewhere(tensor: torch.Tensor, value: float) -> None:
    """Another process writes to the memory, and has ended."""
    other = fork.Process(target=lambda: tensor.numpy().fill(value))
    other.start()
    other.join()
    assert other.exitcode == 0


def divergence(tmp_path: Path, one: Callable[[], Any], two: Callable[[], Any]) -> OpDivergence | None:
    tmp_path.mkdir(exist_ok=True)
    return first_op_divergence(recorded(tmp_path / "a", one), recorded(tmp_path / "b", two))


@pytest.mark.parametrize("shared_from", ["the beginning", "the middle"])
def test_what_another_process_wrote_arrives_different(shared_from: str, tmp_path: Path) -> None:
    """Between two operations on the same memory; the operation that reads it next is not the one that made it."""

    def work(value: float) -> None:
        weight = torch.zeros(4)
        if shared_from == "the beginning":
            weight.share_memory_()
        weight.add_(1)
        weight.share_memory_()
        written_elsewhere(weight, value)
        weight.mul(2)

    place = divergence(tmp_path / "other", lambda: work(3.0), lambda: work(5.0))
    same = divergence(tmp_path / "twin", lambda: work(3.0), lambda: work(3.0))

    assert place is not None
    assert (place.finding, place.names, place.row.kind.op) == ("input", ("self",), "aten::mul.Tensor")
    assert same is None


def test_what_numpy_wrote_through_the_same_memory_arrives_different(tmp_path: Path) -> None:
    """Torch hears nothing of it, and the next operation reads other bits."""

    def work(value: float) -> None:
        weight = torch.zeros(4).add_(1)
        weight.numpy().fill(value)
        weight.neg()

    place = divergence(tmp_path / "other", lambda: work(3.0), lambda: work(5.0))

    assert place is not None
    assert (place.finding, place.row.kind.op) == ("input", "aten::neg")
    assert divergence(tmp_path / "twin", lambda: work(3.0), lambda: work(3.0)) is None


def test_what_other_processes_can_write_to_is_known() -> None:
    """Whatever looks at it; the accelerator is asked nothing."""
    assert not lies_in_shared_memory(torch.zeros(4))
    assert lies_in_shared_memory(torch.zeros(4).share_memory_())
    assert lies_in_shared_memory(torch.zeros(4).share_memory_()[1:].view(3, 1))
    assert not lies_in_shared_memory(torch.eye(2).to_sparse())


@pytest.mark.parametrize(("is_shared", "is_known"), [(True, True), (True, False), (False, True)])
def test_a_step_on_what_others_may_step_on_is_noted(
    is_shared: bool, is_known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its line and its memory, once; where the system shows no memory, with none, and the recording goes on."""
    if not is_known:
        monkeypatch.setattr(shared, "_MAPS", tmp_path / "nowhere")

    def work() -> None:
        model = torch.nn.Linear(2, 1)
        if is_shared:
            model.share_memory()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()

    record_in(tmp_path / "run", work, RunSpec())
    noted = list(read_notes(tmp_path / "run", SteppedShared))

    assert [note.site.source for note in noted] == ["optimizer.step()"] * is_shared
    assert all(bool(note.memory) == is_known for note in noted)


def test_set_makes_no_bits(tmp_path: Path) -> None:
    """What a storage holds is the input of whoever reads it; what it held before it is written over is nothing."""

    def work(value: float, is_written_over: bool) -> Callable[[], None]:
        held = torch.full((4,), value)

        def run() -> None:
            tensor = torch.empty(0).set_(held.untyped_storage(), 0, (4,), (1,))  # type: ignore[call-overload]
            if is_written_over:
                tensor.fill_(1.0)
            tensor.neg()

        return run

    place = divergence(tmp_path / "other", work(1.0, False), work(2.0, False))
    same = divergence(tmp_path / "twin", work(1.0, True), work(2.0, True))

    assert place is not None
    assert (place.finding, place.row.kind.op) == ("input", "aten::neg")
    assert same is None


class AnotherThreadWrites(TorchDispatchMode):
    """While a product is computed, another thread writes to memory."""

    def __init__(self, memory: Any) -> None:
        super().__init__()
        self.memory = memory

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.mm.default:
            thread = threading.Thread(target=self.memory.fill, args=(7,))
            thread.start()
            thread.join()
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("is_written", [True, False])
def test_an_input_that_changes_while_the_operation_runs_is_told(tmp_path: Path, is_written: bool) -> None:
    """Read before and after; the clean twin stays as it was. What the operation itself writes does not count."""
    matrix = torch.ones(3, 3)

    def work() -> None:
        torch.mm(matrix, torch.eye(3))
        torch.ones(3).add_(1)

    recording = recorded(tmp_path / "first", work)
    places = {row.kind.op: (row.step, row.index) for row in rows(recording)}
    # Below the recorder, as if it were in the operation itself.
    with AnotherThreadWrites(matrix.numpy()) if is_written else nullcontext():
        recorded(tmp_path / "kept", work, OpWindow(keep=(places["aten::mm"], places["aten::add_.Tensor"])))
    calls = [json.loads(path.read_text()) for path in (tmp_path / "kept" / OPERANDS).glob("*.json")]
    found = {call["op"]: (call["changed_meanwhile"], call["shared"]) for call in calls}

    assert found == {"aten::mm": (["self"] if is_written else [], []), "aten::add_.Tensor": ([], [])}
