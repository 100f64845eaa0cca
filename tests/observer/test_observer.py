"""The observer must not change what it observes: the bits with recording and witnesses on are the bits without."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from samebits.launch.command import Command
from samebits.runfolder.notes import Failed, Unseen, Witnessed, read_notes
from samebits.runfolder.ops import Ops
from samebits.runfolder.spec import OpWindow, RunSpec
from tests.running import run_recorded

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
OLD = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 7)
SAMPLE = ("transformer", "many")
SCRIPTS = [*sorted(EXAMPLES.glob("*.py")), *(HERE / f"{name}.py" for name in ("transformer", "many", "functional"))]


def watched(script: Path, folder: Path, ops: OpWindow | None = None) -> list[str]:
    """One line per step, with samebits recording every stream and witnessing every factor."""
    lines = folder / "watched.txt"
    argv = (sys.executable, str(HERE / "probe.py"), str(lines), str(script))
    outcome = run_recorded(Command(argv, argv), RunSpec(witness=True, ops=ops), folder / "run")
    assert outcome.succeeded, outcome.folder.stderr.read_text()
    recording = outcome.folder.recordings()[0]
    assert recording.steps == len(lines.read_text().splitlines())
    assert (len(list(Ops(recording).rows())) > 50) == (ops is not None)
    assert next(read_notes(outcome.folder.path, Failed), None) is None
    assert next(read_notes(outcome.folder.path, Witnessed), None) is not None
    return lines.read_text().splitlines()


def alone(script: Path, folder: Path) -> list[str]:
    """One line per step, without samebits."""
    lines = folder / "alone.txt"
    command = [sys.executable, str(HERE / "probe.py"), str(lines), str(script)]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return lines.read_text().splitlines()


@pytest.mark.parametrize(
    "script",
    [pytest.param(path, id=path.stem, marks=[] if path.stem in SAMPLE else [pytest.mark.slow]) for path in SCRIPTS],
)
def test_bits_are_the_same_with_and_without(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every parameter and gradient after every step, for each example and a transformer, at both levels."""
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")

    def folder(name: str) -> Path:
        """Each run starts in one of its own: a script may resume from what it finds."""
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        return tmp_path / name

    without = alone(script, folder("alone"))

    assert len(without) > 5
    assert watched(script, folder("on")) == without
    # On for some steps and off again: neither switch may be felt.
    assert watched(script, folder("ops"), OpWindow(0, 4)) == without
    if script.stem == "transformer":
        # A check that cannot fail is no check: another hash seed gives this one other bits.
        monkeypatch.setenv("PYTHONHASHSEED", "1")
        assert alone(script, folder("other")) != without


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler, and there is no g++")
def test_compiled_code_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bits and one whole graph with recording on; and the compiled region is reported as not seen."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    script = HERE / "compiled.py"
    (tmp_path / "ops").mkdir()
    without = alone(script, tmp_path)

    assert watched(script, tmp_path) == without
    # torch 2.6 does not look past a mode: with operations recorded, it leaves the region uncompiled.
    folders = (tmp_path,) if OLD else (tmp_path, tmp_path / "ops")
    if not OLD:
        assert watched(script, tmp_path / "ops", OpWindow()) == without
    for folder in folders:
        assert "1 compiled region" in next(read_notes(folder / "run", Unseen)).what


def test_nothing_is_left_in_the_environment_of_these_tests() -> None:
    """The runs above told their children about a plan, and only them."""
    assert "SAMEBITS_PLAN" not in os.environ
