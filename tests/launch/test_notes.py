"""What a watched run notes of the lines at which something entered, for readers who come when files have changed."""

from pathlib import Path

import pytest

from samebits.factors.context import Setting
from samebits.launch.command import parse_command
from samebits.runfolder.notes import Files, Note, Seeded, Started, Witnessed, read_notes
from samebits.runfolder.spec import RunSpec
from tests.launch.conftest import PATIENCE_SECONDS, PYTHON, write
from tests.running import run_recorded

SCRIPT = """
import os, random
import helper
random.random()
random.seed(os.getpid())
helper.seed()
open(__file__, "w").write("edited = 1\\n" * 9)
open(helper.__file__, "w").write("edited = 1\\n" * 9)
"""
HELPER = """
import random
def seed():
    return random.Random("own").random()
"""


def noted(folder: Path, *, witness: bool) -> list[Note]:
    """What the script's run noted."""
    write(folder, {"train.py": SCRIPT, "helper.py": HELPER})
    plan = RunSpec("pinned", {"python-rng": Setting("pinned")}, witness=witness)
    outcome = run_recorded(parse_command([PYTHON, str(folder / "train.py")]), plan, folder / "run", PATIENCE_SECONDS)
    assert outcome.exit_code == 0
    return list(read_notes(folder / "run", Note))


def test_notes_carry_the_source_line_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script edits itself afterwards: what was noted stays, with the seeds and their values."""
    monkeypatch.chdir(tmp_path)
    notes = noted(tmp_path, witness=True)
    train, helper = str(tmp_path / "train.py"), str(tmp_path / "helper.py")
    seen = [(n.factor, n.site.line, n.site.noted) for n in notes if isinstance(n, Witnessed) and n.site]
    (start,) = (note for note in notes if isinstance(note, Started))
    seeds = [(n.what, n.value, n.site.path, n.site.noted) for n in notes if isinstance(n, Seeded)]

    assert ("python-rng", 4, "random.random()") in seen
    assert seeds == [
        ("random.seed", start.pid, train, "random.seed(os.getpid())"),
        ("random.Random", "own", helper, 'return random.Random("own").random()'),
    ]
    assert [note.script for note in notes if isinstance(note, Files)] == [train]


def test_a_run_that_is_not_watched_notes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only witnessed runs look at seeds."""
    monkeypatch.chdir(tmp_path)
    notes = noted(tmp_path, witness=False)

    assert not any(isinstance(note, (Seeded, Witnessed)) for note in notes)
