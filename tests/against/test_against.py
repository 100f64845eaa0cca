"""`samebits check --against`: real interpreters, and environments in which torch computes other bits."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.against.interpreters import Interpreter, differing_packages, find_interpreter, modules_imported
from tests.cli.typed import typed

TRAINING = """
import torch

torch.manual_seed(0)
x, w = torch.rand(300), torch.rand(300, requires_grad=True)
for step in range(3):
    loss = torch.tanh(x * w).sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
"""

NEWER_TRAINING = """
import os, torch

torch.manual_seed(0)
x, w = torch.rand(300), torch.rand(300, requires_grad=True)
optimizer = torch.optim.SGD([w], lr=1.0)
if "NEWER" in os.environ:
    optimizer.param_groups[0]["newer"] = False
for step in range(3):
    loss = (torch.tanh(x * w) if step else x * w).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def interpreter(folder: Path, name: str, *lines: str) -> Path:
    """A program that starts this Python in another environment."""
    path = folder / name
    path.write_text("\n".join(["#!/bin/sh", *lines, f'exec "{sys.executable}" "$@"']) + "\n")
    path.chmod(0o755)
    return path


def against(folder: Path, other: object, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "samebits", "check", "--against", str(other), *words],
        cwd=folder,
        capture_output=True,
        text=True,
    )


def test_what_is_no_interpreter_is_refused_at_once(tmp_path: Path) -> None:
    """With what was given and what to give; no run is made."""
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "plain.txt").write_text("no program")
    (tmp_path / "empty").mkdir()
    interpreter(tmp_path, "says-nothing", "exit 3")
    interpreter(tmp_path, "bare", f'exec "{sys.executable}" -S "$@"')
    for other, words in (
        ("nowhere/python", "there is no interpreter 'nowhere/python'"),
        ("./plain.txt", "is not executable"),
        ("./empty", "is a folder without bin/python"),
        ("./says-nothing", "is not a Python interpreter: it printed nothing"),
        ("./bare", "has no torch"),
    ):
        found = typed("check", "--against", other, "train.py", cwd=tmp_path)
        assert (found.status, found.out) == (2, "")
        assert words in found.err
        assert "hint: " in found.err
    assert not (tmp_path / ".samebits").exists()


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    """A launcher has no interpreter to exchange, and nothing is varied."""
    (tmp_path / "train.py").write_text(TRAINING)
    check = ("check", "--against", sys.executable)
    assert "needs a command that starts Python" in typed(*check, "--", "env", "python", "train.py", cwd=tmp_path).err
    for more in (("--vary", "clock"), ("--dry-run",)):
        assert f"--against cannot be combined with {more[0]}" in typed(*check, *more, "train.py", cwd=tmp_path).err


def test_this_interpreter_is_found_with_its_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is started, with what it has; no file of the user's is imported, whatever it is called."""
    (tmp_path / "csv.py").write_text("open('imported', 'w'); raise SystemExit")
    monkeypatch.chdir(tmp_path)
    found = find_interpreter(sys.executable)
    assert not (tmp_path / "imported").exists()

    assert found.path == os.path.abspath(sys.executable)
    assert found.packages["torch"].startswith("2.")
    assert found.imports["sklearn"] == ("scikit-learn",)
    assert "sympy" in found.requires["torch"]


def test_packages_of_the_operation_come_first(tmp_path: Path) -> None:
    """Then what the script imports, then what the first one needs, then the rest; what is the same is left out."""
    script = tmp_path / "train.py"
    script.write_text("import numpy.random\nfrom sklearn import datasets\nfrom .own import x\n")
    common = {"requires": {"torch": ("sympy",)}, "imports": {"numpy": ("numpy",), "sklearn": ("scikit-learn",)}}
    here = Interpreter("a", "3.11.1", {"torch": "2", "sympy": "1", "numpy": "2", "zipp": "1", "six": "1"}, **common)
    there = Interpreter("b", "3.11.1", {"torch": "1", "sympy": "2", "numpy": "1", "abc": "1", "six": "1"}, **common)
    found = differing_packages(here, there, ("torch",), modules_imported([str(script), "missing.py"]))

    assert [(one.name, one.relation) for one in found] == [
        ("torch", "operation"),
        ("numpy", "imported"),
        ("sympy", "required"),
        ("abc", "other"),
        ("zipp", "other"),
    ]
    assert modules_imported([str(script)]) == {"numpy", "sklearn"}


@pytest.mark.slow
def test_two_environments_that_differ_in_one_kernel(tmp_path: Path) -> None:
    """Step, operation and line, confirmed in both interpreters; in text, in JSON, and on a page.

    What the optimizer of one of them keeps besides, as that of another torch may, is noted and not accused.
    """
    (tmp_path / "train.py").write_text(NEWER_TRAINING)
    other = interpreter(tmp_path, "other", "export ATEN_CPU_CAPABILITY=default NEWER=1")
    found = against(tmp_path, other, "--level", "op", "train.py")
    page = subprocess.run([sys.executable, "-m", "samebits", "report"], cwd=tmp_path, capture_output=True, text=True)
    answer = json.loads(next((tmp_path / ".samebits").glob("*/answer.json")).read_text())

    assert found.returncode == 1, found.stderr
    assert re.match(
        r"different bits: /\S+ and /\S+ diverge at step 1, in the (loss|gradients)",
        found.stdout,
    )
    assert re.search(
        r"op +aten::tanh\w*( \(backward.*\))? +at step 1, op \d+: inputs equal, outputs differ: \d+ of 300 elements",
        found.stdout,
    )
    assert "train.py:10  loss = (torch.tanh(x * w) if step else x * w).sum()" in found.stdout
    assert re.search(r"note +only /\S+/other keeps group0\.newer of an optimizer; that is not", found.stdout)
    assert "called again on its inputs: here it gives the recorded result, there never" in found.stdout
    assert "packages  the same in both" in found.stdout
    assert answer["across"]["confirmed"]
    assert answer["there_runs"] == [3, 4, 6, 8]
    assert page.returncode == 0, page.stderr
    assert (
        "called again on its inputs: here it gives the recorded result, there never"
        in Path(tmp_path / page.stdout.strip()).read_text()
    )


@pytest.mark.slow
def test_two_environments_that_agree(tmp_path: Path) -> None:
    """Also where the other one has no xxhash: then neither side uses it."""
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "xxhash.py").write_text("raise ImportError('none here')\n")
    other = interpreter(tmp_path, "other", f"export PYTHONPATH={tmp_path}/without:$PYTHONPATH")
    found = against(tmp_path, other, "train.py")

    assert found.returncode == 0, found.stderr
    assert "agree in" in found.stdout


@pytest.mark.slow
def test_what_does_not_repeat_by_itself_is_undecided(tmp_path: Path) -> None:
    """No environment is accused of what a single one does, too."""
    chance = "int(open('/proc/sys/kernel/random/uuid').read(2), 16) / 255"
    (tmp_path / "train.py").write_text(TRAINING.replace("torch.rand(300)", f"torch.rand(300) * {chance}", 1))
    found = against(tmp_path, sys.executable, "train.py")

    assert found.returncode == 2
    assert "the script does not repeat by itself: runs 1 and 2 diverge at step 0" in found.stderr
