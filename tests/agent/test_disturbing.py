"""The program goes on as if samebits were not there: how it leaves, what its errors say, what its objects are asked."""

import subprocess
import sys
import textwrap
import threading
import traceback
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import samebits
from samebits.agent.leash import OtherRun
from samebits.agent.trees import leaves
from samebits.bits.digest import DIGEST, digests
from samebits.factors import imports
from samebits.factors.patching import PatchedFunction
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Failed, Unseen, read_notes
from samebits.runfolder.steps import Recording, Writer
from tests.agent.recording import train

from_3_11 = pytest.mark.skipif(sys.version_info < (3, 11), reason="a bare raise keeps the traceback it caught")


def run(folder: Path, script: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(textwrap.dedent(script))
    command = [sys.executable, "-m", "samebits", "run", "--no-pin", "--out", str(folder / "run"), "train.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds)


# How a program leaves


TRAINING = """\
import os, threading, time
import torch
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
"""


def test_a_watchdog_ends_a_program_that_hangs_in_a_hook(tmp_path: Path) -> None:
    """It waits for what is to be written, but not for ever."""
    hanging = """
import samebits.agent.recorder as recorder
recorder.SECONDS_TO_FINISH = 0.5
from samebits.agent.log import Log
Log.end_step = lambda *_: time.sleep(1000)
threading.Timer(0.5, lambda: os._exit(7)).start()
optimizer.step()
"""
    done = run(tmp_path, TRAINING + hanging)

    assert done.returncode == 7


def test_a_device_that_has_failed_does_not_fail_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an assertion on a device every question to it raises, also whether a graph is captured."""

    def raises() -> bool:
        raise RuntimeError("CUDA error: device-side assert triggered")

    with samebits.record(tmp_path / "run"):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", raises)
        train()
        monkeypatch.undo()

    assert RunFolder(tmp_path / "run").recordings()[0].steps == 2


# What its errors say


@from_3_11
def test_errors_do_not_pass_through_us(tmp_path: Path) -> None:
    """Neither where torch was listened to nor where a function was replaced."""

    def lines(failing: Any) -> list[str]:
        with pytest.raises((RuntimeError, TypeError, ValueError, OSError)) as caught:
            failing()
        return [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]

    def open_patched() -> None:
        replaced = PatchedFunction("builtins", "open", open, lambda path: Path(path).read_text())
        replaced(tmp_path / "missing")

    model = torch.nn.Linear(2, 2)
    failures = (
        lambda: torch.ones(1).backward(),
        lambda: model.load_state_dict({}),
        lambda: torch.optim.SGD([], lr=0.1),
        lambda: torch.save(model, tmp_path / "missing" / "last.pt"),
    )
    without = [lines(failing) for failing in failures]
    with samebits.record(tmp_path / "run"):
        recorded = [lines(failing) for failing in failures]

    assert recorded == without
    assert min(map(len, recorded)) > 2
    assert not [name for name in lines(open_patched) if "patching" in name]


def test_an_import_goes_on_whatever_happens_to_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that only has the name, or another version of it, is imported; what was missed is said."""
    (tmp_path / "only_a_name.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(imports, "failures", [])
    imports.when_loaded("only_a_name", lambda module: module.ACC_RDONLY)

    import only_a_name  # type: ignore[import-not-found]

    with samebits.record(tmp_path / "run"):
        train()
    (note,) = read_notes(tmp_path / "run", Unseen)
    assert only_a_name.x == 1
    assert "ACC_RDONLY" in note.what


# What its objects are asked


class Lazy:
    """Makes what it is asked for."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # pickle asks for such names
            raise AttributeError(name)
        raise AssertionError(f"asked for {name}")


class Sharded(nn.Linear):
    """Its state_dict is a collective, which one rank must not enter alone."""

    def state_dict(self, *_: Any, **__: Any) -> dict[str, Any]:
        raise AssertionError("a collective")


def test_nothing_of_the_programs_is_called(tmp_path: Path) -> None:
    """What is saved, returned and given to models is looked at from outside."""
    with samebits.record(tmp_path / "run"):
        torch.save({"lazy": Lazy(), "net": Sharded(2, 2)}, tmp_path / "net.pt")
        model = train()
        model(torch.ones(1, 4))
        model.register_forward_hook(lambda *_: {"lazy": Lazy()})
        model(torch.ones(1, 4))
    names = [name for name, _ in leaves(Sharded(2, 2), "0")]

    assert not list(read_notes(tmp_path / "run", Failed))
    assert names == ["0.weight", "0.bias"]
    assert [path for path, _ in leaves({"lazy": Lazy()}, "0")] == ["0.lazy"]


class Embedded(torch.utils.data.Dataset[torch.Tensor]):
    """Calls a module within a module for each sample."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(3, 3))

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.as_tensor(self.model(torch.ones(3)).detach())


def test_a_loader_may_be_the_first_to_call_a_model(tmp_path: Path) -> None:
    """Nothing is known of any call before it, and the modules inside are called all the same."""
    with samebits.record(tmp_path / "run"):
        (batch,) = torch.utils.data.DataLoader(Embedded(), batch_size=4)

    assert batch.shape == (4, 3)


def test_names_of_a_saved_module_are_those_of_its_state_dict() -> None:
    """Tied weights under both names; what is not saved is not there."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Linear(2, 2))
    model[2].weight = model[0].weight
    model.register_buffer("passing", torch.ones(1), persistent=False)
    model.register_buffer("lasting", torch.ones(1))

    assert sorted(path for path, _ in leaves(model)) == sorted(f".{name}" for name in model.state_dict())


# Recording from inside


def test_a_decorated_function_is_recorded_each_time(tmp_path: Path) -> None:
    """The second call has a folder of its own beside the first."""
    trained = samebits.record(tmp_path / "one")(train)
    trained()
    trained(3)

    steps = [RunFolder(tmp_path / name).recordings()[0].steps for name in ("one", "one-2")]
    assert steps == [2, 3]


def test_a_block_may_be_left_in_another_thread(tmp_path: Path) -> None:
    """As a generator that is closed elsewhere leaves it; torch is as it was, and the next one may begin."""
    before = nn.Module.load_state_dict
    block: AbstractContextManager[Path] = samebits.record(tmp_path / "one")
    block.__enter__()
    train()
    leaving = threading.Thread(target=block.__exit__, args=(None, None, None))
    leaving.start()
    leaving.join()
    with samebits.record(tmp_path / "two"):
        train()

    assert nn.Module.load_state_dict is before
    assert RunFolder(tmp_path / "one").recordings()[0].complete


def test_another_run_that_is_read_along_is_not_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is left open warns when it is collected, in the program's own process."""
    closed = []
    close = Recording.close
    monkeypatch.setattr(Recording, "close", lambda self: (closed.append(self.path), close(self)))
    for name in ("before", "now"):
        (tmp_path / name).mkdir()
    writer = Writer(tmp_path / "before", 0, digest=DIGEST)
    roots = [writer.write(step, "step", {}) for step in range(3)]
    writer.close()
    followed = OtherRun(tmp_path / "before", is_growing=False)
    path = tmp_path / "now" / "recording.sqlite"

    assert [followed.agrees(path, root) for root in roots[:2]] == [True] * 2
    assert not followed.agrees(path, b"another".ljust(len(roots[2])))
    assert len(closed) == 1


@pytest.mark.parametrize(
    ("owner", "name", "lost"),
    [
        (torch.utils.data.dataloader, "_BaseDataLoaderIter", "batches"),
        (torch.nn.modules.module, "register_module_forward_pre_hook", "calls of modules"),
    ],
    ids=["loaders", "modules"],
)
def test_a_torch_without_a_name_costs_what_is_seen_by_it(
    owner: Any, name: str, lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is recorded, and it is said."""
    monkeypatch.delattr(owner, name)
    with samebits.record(tmp_path / "run"):
        train()
    (note,) = read_notes(tmp_path / "run", Unseen)

    assert lost in note.what
    assert name in note.what
    assert "grad" in RunFolder(tmp_path / "run").recordings()[0].columns(0)


def test_a_recording_that_cannot_begin_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No hook in torch, a folder that says so, and room for the next one."""

    def fails(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("samebits.agent.taps.saving.install", fails)
        with pytest.raises(MemoryError), samebits.record(tmp_path / "first"):
            raise AssertionError
    train()
    assert RunFolder(tmp_path / "first").manifest()["status"] == "interrupted"
    assert [one.steps for one in RunFolder(tmp_path / "first").recordings()] in ([], [0])
    with samebits.record(tmp_path / "second"):
        train()
    assert RunFolder(tmp_path / "second").recordings()[0].steps > 0


def test_a_torch_without_modes_costs_operations_alone(tmp_path: Path) -> None:
    """As it is with a version that calls private names otherwise: in a process that has not loaded ours yet."""
    script = """
        import torch
        del torch._C._len_torch_dispatch_stack, torch._C._DisableFuncTorch
        import samebits
        with samebits.record("run", level="op"):
            model = torch.nn.Linear(4, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, check=True)
    told = "\n".join(note.what for note in read_notes(tmp_path / "run", Unseen))

    assert "_len_torch_dispatch_stack" in told
    assert "_DisableFuncTorch" in told
    assert RunFolder(tmp_path / "run").recordings()[0].steps == 1


# Tensors that wrap others


def test_what_a_transform_wraps_is_digested_below_and_ends_no_recording() -> None:
    """A wrapper has no memory of its own: at level op it is no evidence, at level step what it wraps is."""
    from samebits.agent.log import tensors_in
    from samebits.agent.ops.mode import _has_bits

    found: dict[str, list[int]] = {}
    has_bits: list[bool] = []

    def loss(x: torch.Tensor) -> torch.Tensor:
        has_bits.extend([_has_bits(x), _has_bits(x * 1)])
        found["wrapped"] = digests([tensor for _, tensor in tensors_in({"x": x, "held": Holding(x)}, "0")])
        return x.sum()

    torch.func.grad(loss)(torch.ones(()))

    assert found["wrapped"] == digests([torch.ones(()), torch.ones(())])
    assert has_bits == [False] * 2


class Holding:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x
