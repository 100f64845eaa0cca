"""A recorded call, called again by a script that knows nothing of samebits."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import samebits
from samebits.cli.commands.replay import _found
from samebits.replay.reproducer import reproducer
from samebits.replay.runner import operands_in, replay
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Journal, Started
from samebits.runfolder.ops import Ops, read_call
from samebits.runfolder.spec import OpWindow, RunSpec
from tests.agent.recording import record_in
from tests.cli.typed import typed
from tests.launch.conftest import samebits as command
from tests.schemas import assert_valid


def kept(work: Callable[[], Any], op: str, folder: Path) -> Path:
    """The operands of the first such operation in what `work` does."""
    for name, keep in (("first", ()), ("second", None)):
        if keep is None:
            ops = Ops(RunFolder(folder / "first").recordings()[0])
            keep = tuple((row.step, row.index) for row in ops.rows() if row.kind.op == op)[:1]
        record_in(folder / name, work, RunSpec(ops=OpWindow(keep=keep)))
        RunFolder(folder / name).write_manifest({"status": "ended"})
        Journal(folder / name).note(Started(sys.executable))
    return operands_in(folder / "second")[0]


def dropout() -> None:
    torch.manual_seed(3)
    nn.functional.dropout(torch.ones(4, 5), 0.5)


def in_place() -> None:
    x = torch.arange(12.0).view(3, 4)
    x[:, 1:3].add_(torch.ones(3, 1), alpha=0.1)


def channels_last() -> None:
    x = torch.linspace(0, 1, 2 * 3 * 8 * 8).view(2, 3, 8, 8).to(memory_format=torch.channels_last)
    nn.functional.conv2d(x, torch.ones(4, 3, 3, 3), padding=1)


def broadcast() -> None:
    torch.ones(3, 1).expand(3, 4).add(torch.tensor([float("nan"), float("inf"), -0.0, 1e-45]))


def half() -> None:
    torch.ones(5, dtype=torch.bfloat16).mul(torch.tensor(1.0 / 3, dtype=torch.bfloat16))


def listed() -> None:
    torch.cat([torch.ones(2, 2), torch.zeros(1, 2, dtype=torch.float64)])


@pytest.mark.parametrize(
    ("work", "op"),
    [
        (in_place, "aten::add_.Tensor"),
        (channels_last, "aten::convolution"),
        (broadcast, "aten::add.Tensor"),
        (half, "aten::mul.Tensor"),
        (listed, "aten::cat"),
    ],
)
@pytest.mark.slow
def test_a_call_is_repeated_bit_for_bit(work: Callable[[], None], op: str, tmp_path: Path) -> None:
    """Views, strides, NaN and lists included; the test of the script that speaks for itself has random draws."""
    operands = kept(work, op, tmp_path)
    found = replay(RunFolder(tmp_path / "second"), operands, times=4)

    assert (found.failure, found.other_python) == ("", "")
    assert (found.distinct, found.gives_recorded, found.is_confirmed) == (1, True, False)


def test_operands_lie_as_they_lay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel may be chosen by strides: the script gives them back."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    operands = kept(channels_last, "aten::convolution", tmp_path)
    run = tmp_path / "second"
    space: dict[str, Any] = {"__name__": "bug", "__file__": str(operands.with_suffix(".py"))}
    exec(reproducer(read_call(operands, run), operands.with_suffix(".safetensors"), run), space)
    image, weight = space["inputs_from"](space["raw_bytes"]())[:2]

    assert (image.stride(), weight.stride()) == ((192, 1, 24, 3), (27, 9, 3, 1))


def race() -> None:
    torch.manual_seed(0)
    index, weight = torch.randint(0, 64, (65536,)), torch.randn(65536, 16)
    leaf = torch.zeros(64, 16, requires_grad=True)
    (leaf[index] * weight).sum().backward()


@pytest.mark.slow
def test_a_race_is_confirmed(tmp_path: Path) -> None:
    """The planted failure: an operation that does give different bits for the same inputs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(8)
    try:
        operands = kept(race, "aten::index_put", tmp_path)
    finally:
        torch.set_num_threads(threads)
    done = command("replay", "--format", "json", str(tmp_path), cwd=tmp_path)

    # The file, the run and the folder that holds the run all lead there.
    assert {_found(path)[1] for path in (operands, tmp_path / "second", tmp_path)} == {operands}
    found = json.loads(done.out)
    assert found["operands"] == str(operands)
    assert_valid(found)
    assert done.status == 1
    assert (found["verdict"], found["is_racy"]) == ("different", True)
    assert next(c["results"] for c in found["conditions"] if c["name"] == "1 thread") == 1


def test_the_script_speaks_for_itself(tmp_path: Path) -> None:
    """Run by hand it names the operation, the conditions and the answer, wherever it was copied, and needs no samebits.

    It gets what the run got: the same random draws.
    """
    operands = kept(dropout, "aten::bernoulli_.float", tmp_path)
    found = replay(RunFolder(tmp_path / "second"), operands, times=2)
    script = found.script
    assert script is not None
    (tmp_path / "elsewhere").mkdir()
    copy = tmp_path / "elsewhere" / "bug.py"
    copy.write_text(script.read_text())
    done = subprocess.run([sys.executable, str(copy), "--times", "2"], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "aten::bernoulli_.float"
    assert done.stdout.splitlines()[-1] == "different results: 1"
    assert "test_replay.py" in copy.read_text()
    assert "samebits" not in copy.read_text().partition('"""')[2].partition('"""')[2]
    assert (found.failure, found.other_python) == ("", "")
    assert (found.distinct, found.gives_recorded, found.is_confirmed) == (1, True, False)


COUNT = [0]


@torch.library.custom_op("samebits_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("samebits_tests::counted", mutates_args=())
def counted(x: torch.Tensor) -> torch.Tensor:
    COUNT[0] += 1
    return x * COUNT[0]


@torch.library.custom_op("samebits_tests::drawn", mutates_args=())
def drawn(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rand(())


@torch.library.custom_op("samebits_tests::bump", mutates_args=("x",))
def bump(x: torch.Tensor) -> None:
    x.add_(1)


@pytest.mark.parametrize(("op", "results"), [(twice, 1), (counted, 20)])
def test_an_operation_of_the_programs_own_is_called_again_there(op: Any, results: int, tmp_path: Path) -> None:
    """It is unknown in another process, so the run that keeps its operands tries it."""
    operands = kept(lambda: op(torch.ones(3)), f"samebits_tests::{op._name}", tmp_path)
    found = replay(RunFolder(tmp_path / "second"), operands)

    assert (found.script, found.failure, found.distinct) == (None, "", results)
    assert found.is_confirmed == (results > 1)


def test_calling_an_operation_again_leaves_the_programs_generators_as_they_were(tmp_path: Path) -> None:
    """What it draws next is what it would have drawn without."""
    states = []

    def program() -> None:
        torch.manual_seed(0)
        drawn(torch.ones(3))
        states.append(torch.get_rng_state())

    operands = kept(program, "samebits_tests::drawn", tmp_path)

    assert replay(RunFolder(tmp_path / "second"), operands).distinct == 1
    assert all(torch.equal(state, states[0]) for state in states)


def test_an_operation_of_the_programs_own_that_writes_is_not(tmp_path: Path) -> None:
    """Calling it again would change what the program goes on with, and the answer says that it was not tried."""
    operands = kept(lambda: bump(torch.ones(3)), "samebits_tests::bump", tmp_path)
    found = replay(RunFolder(tmp_path / "second"), operands)

    assert "samebits_tests::bump is a custom operation" in found.failure


def test_a_run_without_operands(tmp_path: Path) -> None:
    """There is nothing to replay, and what to do is said."""
    with samebits.record(tmp_path / "run", level="op"):
        torch.ones(2).add(1)
    done = typed("replay", "run", cwd=tmp_path)

    assert (done.status, done.out) == (2, "")
    assert "holds the operands of no operation" in done.err
    assert "samebits check --level op" in done.err
    told = json.loads(typed("replay", "--format", "json", "run", cwd=tmp_path).out)
    assert_valid(told)
    assert (told["verdict"], told["error"]["kind"]) == ("undecided", "recording")
