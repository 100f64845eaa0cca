"""What a run says of the environment that it computed in: as it was when the first step was done."""

from dataclasses import fields
from pathlib import Path

import pytest
import torch

import samebits
from samebits.agent import environment
from samebits.agent.environment import environment_now
from samebits.locking.digests import locked_of
from samebits.runfolder.environment import Environment, merge_environments
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import noted_environment
from tests.agent.recording import train


def test_it_is_known_on_the_cpu() -> None:
    """What torch, NumPy, Python and the system say of themselves; nothing of CUDA, which is not woken up by asking."""
    found = environment_now()

    assert {field.name for field in fields(found) if not getattr(found, field.name)} <= {"cuda", "cudnn", "driver"}
    assert (found.device, found.torch, found.torch_git) == ("cpu", torch.__version__, torch.version.git_version)
    assert found.instructions.split()[0] == torch.backends.cpu.get_cpu_capability()
    assert found.threads == str(torch.get_num_threads())
    assert not torch.cuda.is_initialized()


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_those_of_the_training(tmp_path: Path, threads: int) -> None:
    """A script may set their number itself, after torch was imported."""
    before = torch.get_num_threads()
    try:
        with samebits.record(tmp_path / "run"):
            torch.set_num_threads(threads)
            train()
    finally:
        torch.set_num_threads(before)

    assert noted_environment(tmp_path / "run").threads == str(threads)
    assert len(locked_of(RunFolder(tmp_path / "run").recordings()).rows) == 3


def test_variables_that_choose_instructions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch says what it chose itself; for MKL and oneDNN there are only variables."""
    monkeypatch.delenv("MKL_CBWR", raising=False)
    plain = environment_now()
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")  # of no account without a device
    chosen = environment_now()

    assert plain.differing(chosen) == ("instructions",)
    assert "MKL_CBWR=COMPATIBLE" in chosen.instructions.split()
    assert "CUBLAS_WORKSPACE_CONFIG" not in chosen.instructions


@pytest.mark.parametrize("module", ["Kernel Module  550.54.15  ", "Open Kernel Module for x86_64  550.54.15  Release"])
def test_the_version_of_nvidias_driver_is_read(module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of the closed and of the open one, as they describe themselves; without one there is none."""
    (tmp_path / "version").write_text(f"NVRM version: NVIDIA UNIX x86_64 {module}\nGCC version:  gcc 12.3.0\n")
    monkeypatch.setattr(environment, "_DRIVER", tmp_path / "version")
    found = environment._nvidias_driver()
    monkeypatch.setattr(environment, "_DRIVER", tmp_path / "nothing")

    assert (found, environment._nvidias_driver()) == ("550.54.15", "")


def test_processes_make_one_environment() -> None:
    """What they share once, what they do not in any order; without a process nothing is known."""
    a, b = Environment(device="A", threads="1"), Environment(device="B", threads="1")

    assert merge_environments([a, b]) == merge_environments([b, a]) == Environment(device="A, B", threads="1")
    assert merge_environments([]) == Environment()
