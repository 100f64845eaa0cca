"""Level op on accelerators, without one: scratch, late copies, compiled code, threads, following, settings."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._inductor.output_code import CompiledAOTI
from torch._subclasses.fake_tensor import FakeTensorMode

import samebits
from samebits.agent.ops import capture, mode, operands, places
from samebits.agent.ops.schemas import schema_of
from samebits.checking import origin
from samebits.rng import digests as generators
from samebits.runfolder.notes import OpDiverged, read_notes
from samebits.runfolder.ops import OPERANDS, OpRow
from samebits.runfolder.spec import OpWindow
from tests.agent import recording
from tests.agent.recording import rows


def recorded(folder: Path, work: Callable[[], object], spec: OpWindow | None = None) -> list[OpRow]:
    return rows(recording.recorded(folder, work, spec))


ATTENTION = ("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention")
NAMED = {"rng_state", "unused", "philox_seed", "philox_offset"}


def test_scratch_is_named_by_its_position() -> None:
    """The table says what torch's schemas call so; what a backward takes of it is not read either."""
    names = (*ATTENTION, "_flash_attention_forward", "_efficient_attention_forward", "_cudnn_attention_forward")
    for name in (name for name in names if hasattr(torch.ops.aten, name)):
        op = getattr(torch.ops.aten, name).default
        wanted = [at for at, one in enumerate(op._schema.returns) if one.name in NAMED]

        assert list(schema_of(op).scratch) == wanted, name
    for name in ("_scaled_dot_product_flash_attention_backward", "_cudnn_rnn_backward", "cudnn_batch_norm_backward"):
        schema = schema_of(getattr(torch.ops.aten, name).default)

        assert schema.write_only & {*NAMED, "reserve", "reserveSpace"}, name
    assert not schema_of(torch.ops.aten.native_batch_norm.default).scratch
    assert not schema_of(torch.ops.aten.mul.Tensor).write_only


def test_uninitialised_results_are_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that leaves one of its results as the memory was agrees with itself; without the table it does not."""
    library = torch.library.Library("scratching", "DEF")
    library.define("attend(Tensor x) -> (Tensor, Tensor)")
    junk = iter(range(100))
    library.impl("attend", lambda x: (x * 2, torch.full((2,), next(junk))), "CPU")

    def work() -> None:
        torch.ops.scratching.attend(torch.ones(3))[0].sum()

    def outs(folder: str) -> list[dict[str, int]]:
        return [row.outs for row in recorded(tmp_path / folder, work) if row.kind.op == "scratching::attend"]

    planted = outs("a"), outs("b")
    monkeypatch.setitem(mode.schema_of.__globals__["_SCRATCH_RESULTS"], "scratching::attend", (1,))
    monkeypatch.setitem(mode.schema_of.__globals__, "_met", {})
    first, second = outs("c"), outs("d")

    assert planted[0] != planted[1]
    assert first == second
    assert [list(row) for row in first] == [["result[0]"]]


def test_weights_that_are_put_together_are_evidence_where_they_are_read() -> None:
    """CuDNN's recurrent nets do that before anybody has written to them."""
    assert schema_of(torch.ops.aten._cudnn_rnn_flatten_weight.default).is_view


def test_what_an_lstm_keeps_for_its_backward_accuses_nobody() -> None:
    """OneDNN's workspace is such memory on the CPU: calls agree, whatever lay there before."""

    def work() -> None:
        torch.manual_seed(0)
        torch.nn.LSTM(32, 64, 2)(torch.randn(16, 8, 32))[0].sum().backward()

    samebits.assert_repeats(work, runs=4)


@pytest.mark.parametrize(
    ("args", "is_late"),
    [(("cuda", True), True), (("cuda", False), False), (("cpu", True), False)],
)
def test_a_copy_that_is_not_waited_for_is_not_looked_at(args: tuple[str, bool], is_late: bool) -> None:
    """From a device to the host, and only then."""
    device, non_blocking = args
    with FakeTensorMode():
        x = torch.ones(3, device=device)
        y = torch.ones(3)
    copy, to = schema_of(torch.ops.aten.copy_.default), schema_of(torch.ops.aten._to_copy.default)
    assert copy.non_blocking is not None
    assert to.non_blocking is not None

    assert (
        mode._may_return_early(copy.non_blocking, (y, x, non_blocking), {}) and mode._comes_to_the_host([y, x], [y])
    ) == is_late
    assert (
        mode._may_return_early(to.non_blocking, (x,), {"non_blocking": non_blocking})
        and mode._comes_to_the_host([x], [y])
    ) == is_late


def deeply(depth: int, work: Callable[[], Tensor]) -> Tensor:
    return work() if depth == 0 else deeply(depth - 1, work)


def test_what_compiled_code_calls_is_passed_by(tmp_path: Path) -> None:
    """However far below it: kernels are tried out there, in a graph's memory. What the program calls is not."""
    graph = CompiledAOTI.__new__(CompiledAOTI)
    x = torch.ones(2, 2)
    graph.current_callable = lambda inputs: deeply(30, lambda: torch.mm(*inputs))

    assert [row.kind.op for row in recorded(tmp_path / "a", lambda: graph([x, x]) + 1)] == ["aten::add.Tensor"]
    assert [row.kind.op for row in recorded(tmp_path / "b", lambda: deeply(30, lambda: torch.mm(x, x)) + 1)] == [
        "aten::mm",
        "aten::add.Tensor",
    ]


def race() -> Callable[[], None]:
    seeds = iter([1.0, 2.0, 3.0, 4.0])

    def work() -> None:
        x = torch.full((4,), next(seeds)) * 0
        (x + torch.ones(4)).mul_(2)
        torch.full((3,), next(seeds)).add_(1)

    return work


def test_following_on_a_device_notes_the_place_and_waits_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are compared when they come over, in their order; operands are kept only where they were asked for."""
    work = race()
    recorded(tmp_path / "recorded", work)
    near = OpWindow(against=str(tmp_path / "recorded"))
    monkeypatch.setattr(mode, "_is_cpu", lambda tensor: False)
    taken: list[Any] = []
    real = capture.Operands
    monkeypatch.setattr(capture, "Operands", lambda *args: taken.append(args) or real(*args))
    monkeypatch.setattr(capture.OpCapture, "begin", as_on_a_device(capture.OpCapture.begin))
    settled: list[int] = []
    settle = mode.OpRecorder._settle
    monkeypatch.setattr(mode.OpRecorder, "_settle", lambda self: settled.append(len(self._rows)) or settle(self))
    recorded(tmp_path / "followed", work, near)
    (note,) = read_notes(tmp_path / "followed", OpDiverged)

    assert (note.step, note.index) == (0, 0)
    assert not taken
    assert not (tmp_path / "followed" / OPERANDS).exists()
    assert max(settled) > 4  # all at once

    recorded(tmp_path / "kept", race(), OpWindow(against=near.against, keep=((0, 3),)))

    assert len(taken) == 1
    assert len(list((tmp_path / "kept" / OPERANDS).glob("*.json"))) == 1


def as_on_a_device(begin: Callable[..., Any]) -> Callable[..., Any]:
    """What `begin` does where tensors lie on an accelerator."""

    def asked(self: Any, place: Any, call: Any, *rest: Any) -> Any:
        elsewhere = SimpleNamespace(is_cpu=False)
        seen = SimpleNamespace(tensors=[elsewhere], schema=call.schema)
        return begin(self, place, call if self.keeps(place) else seen, *rest)

    return asked


def test_a_backward_threads_nodes_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that another thread numbers like one of the main thread's gets neither its line nor its module."""
    numbers = {threading.get_ident(): 7}
    node = SimpleNamespace(_sequence_nr=lambda: 7, name=lambda: "MulBackward0")
    current: list[Any] = [None]
    monkeypatch.setattr(places, "_next_node", lambda: numbers.get(threading.get_ident(), 0))
    monkeypatch.setattr(places, "_current_node", lambda: current[0])
    monkeypatch.setattr(places, "kind_in_use", lambda: "cuda")
    there = places.Places()
    numbers[threading.get_ident()] = 8
    there.place_of("mul", False, __import__("sys")._getframe())
    current[0] = node
    found: dict[str, places.OpPlace] = {}

    def backward() -> None:
        found["main's"] = there.place_of("mul", False, None)
        numbers[threading.get_ident()] = 3
        monkeypatch.setattr(places, "_is_below_engine", lambda frame: True)
        found["its own"] = there.place_of("mul", False, None)

    there.backward_called(__import__("sys")._getframe())
    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()

    assert found["main's"].backward_of == "mul"
    assert found["its own"].backward_of == "MulBackward0"
    assert found["its own"].line[2] == "test_a_backward_threads_nodes_are_its_own"


def test_a_second_devices_backward_is_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its turn differs from run to run: the first device's thread is recorded, writes of the other's are forgotten."""
    unseen: list[str] = []
    recorder = mode.OpRecorder(SimpleNamespace(), OpWindow(), unseen.append)  # type: ignore[arg-type]
    recorder._devices = {0, 1}
    current = iter([0, 1])
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(mode, "current_index", lambda: next(current))
    x = torch.ones(3)
    recorder.producers.wrote(x, "forward")
    found: list[Any] = [recorder._must_pass(schema_of(torch.ops.aten.add_.Tensor), (x, x), {})]

    def backward() -> None:
        for _ in range(2):
            found.append(recorder._must_pass(schema_of(torch.ops.aten.add_.Tensor), (x, x), {}))
            found.append(recorder.producers.of(x)[0])

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()

    assert found == [False, False, "forward", True, None]
    assert "other than the first one" in unseen[0]


def test_settings_are_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """An older switch that will not answer beside a newer one leaves the others known."""

    def may_raise() -> str:
        raise RuntimeError("PyTorch is checking the matmul precision without a specific backend name")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", may_raise)
    settings = operands._settings()

    assert "set_float32_matmul_precision" not in settings
    assert settings["set_num_threads"] == [torch.get_num_threads()]
    assert settings["backends.mkldnn.enabled"] is True
    own = "backends.cuda.matmul.fp32_precision"
    assert own in settings or not hasattr(torch.backends.cuda.matmul, "fp32_precision")


def test_the_generator_is_the_devices_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before CUDA was used; of a device that nobody knows, none."""
    begun: list[str] = []
    own = torch.Generator()
    monkeypatch.setattr(torch.cuda, "init", lambda: begun.append("cuda"))
    monkeypatch.setattr(torch.cuda, "default_generators", (torch.Generator(), own), raising=False)

    assert generators.default_generator(torch.device("cuda", 1)) is own
    assert begun == ["cuda"]
    assert generators.default_generator(torch.device("cpu")) is torch.default_generator
    assert generators.default_generator(torch.device("meta")) is None


class RunPool:
    """Hands out runs that were recorded before."""

    left = 9

    def __init__(self, *runs: Any) -> None:
        self.runs = iter(runs)

    def run(self, plan: Any) -> Any:
        return next(self.runs)


def test_a_recording_that_ended_is_no_agreement() -> None:
    """Neither of the first run nor of one that reads along."""
    broken = SimpleNamespace(trouble=origin.SamebitsError("out of memory", "fewer"), path=Path("there"))
    for runs in ([broken], [SimpleNamespace(trouble=None, path=Path("there")), broken]):
        with pytest.raises(origin.RecordingEndedError, match="out of memory"):
            origin._in_window(RunPool(*runs), origin.RunSpec("a", {}), origin.RunSpec("b", {}), OpWindow(0, 0))  # type: ignore[arg-type]


def test_copies_of_what_a_call_writes_lie_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the strides that they had: a device may have no room for them."""
    asked: list[Any] = []
    real = torch.empty_strided
    monkeypatch.setattr(
        torch, "empty_strided", lambda *args, **more: asked.append(more["device"]) or real(*args, **more)
    )
    with FakeTensorMode():
        there = torch.ones(2, 3, device="cuda").t()
    with pytest.raises(NotImplementedError, match="no data"):
        operands._copied(there)

    assert asked[-1] == "cpu"
    assert operands._copied(torch.ones(2, 3).t()).stride() == (1, 3)
