"""Locked trainings, and what is changed in them, around them or beneath them: caught where bits change, else not."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samebits.locking.lockfile import Lockfile
from tests import answers
from tests.cli.typed import typed
from tests.schemas import assert_valid
from tests.sharing import made_once

STEPS = 12
# Layer normalisation adds over the batch: its gradients depend on the number of threads.
SCRIPT = f'''"""A small training."""
import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range({STEPS}):
    loss = model(torch.randn(2048, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if len(sys.argv) > 1:
    torch.save(model.state_dict(), sys.argv[1] + "/last.pt")
print("done")
'''
FLIP = "model[0].weight.data.view(torch.int32).view(-1)[17] ^= 1"


def samebits(folder: Path, *words: str, threads: int = 2, **variables: str) -> subprocess.CompletedProcess[str]:
    return answers.samebits(folder, *words, OMP_NUM_THREADS=str(threads), **variables)


def verified(folder: Path, *words: str, threads: int = 2) -> dict[str, Any]:
    return answers.answered(folder, "verify", *words, OMP_NUM_THREADS=str(threads))


def alone(found: dict[str, Any]) -> dict[str, Any]:
    (entry,) = found["entries"]
    return dict(entry)


def git(folder: Path, *words: str) -> None:
    own = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*own, *words], check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a training, and a lockfile that was made with two threads."""

    def make(path: Path) -> None:
        (path / "train.py").write_text(SCRIPT)
        git(path, "init", "-q")
        git(path, "add", "train.py")
        git(path, "commit", "-qm", "first")
        done = samebits(path, "lock", "--no-check", "--format", "json", "train.py")
        assert done.returncode == 0, done.stdout + done.stderr
        assert_valid(json.loads(done.stdout))

    shutil.copytree(made_once(tmp_path_factory, "locked", make), tmp_path / "own")
    return tmp_path / "own"


def edit(folder: Path, before: str, after: str) -> None:
    text = (folder / "train.py").read_text()
    assert before in text
    (folder / "train.py").write_text(text.replace(before, after))


def test_what_changes_no_bits_is_not_caught(folder: Path) -> None:
    """A comment, a printed line, and the lines below them that have moved."""
    edit(folder, "torch.manual_seed(0)", '# Begin.\nprint("begin")\ntorch.manual_seed(0)')
    entry = alone(verified(folder))

    assert (entry["verdict"], entry["steps"]) == ("same", STEPS)
    assert [(change["path"], change["line"]) for change in entry["code"]] == [("train.py", 7)]


CAUGHT = {
    "a bit of one parameter at the last step": (
        "    optimizer.step()",
        f"    if step == {STEPS - 1}:\n        {FLIP}\n    optimizer.step()",
        {"step": STEPS - 1, "is_exact": True},
        14,
    ),
    "the last bit of the learning rate": ("lr=0.1", "lr=0.1 + 2e-17", {"step": 0, "streams": ["optimizer"]}, 9),
    "one draw more at step 5": (
        "    loss = model",
        "    if step == 5:\n        torch.rand(())\n    loss = model",
        {"step": 5, "agreed": 4, "is_exact": True},
        11,
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in CAUGHT])
def test_what_changes_bits_is_caught(folder: Path, name: str) -> None:
    """With its step, its stream, and the line of the code that has changed since."""
    before, after, expected, line = CAUGHT[name]
    edit(folder, before, after)
    entry = alone(verified(folder))
    place = entry["divergences"][0]

    assert entry["verdict"] == "different"
    assert {key: place[key] for key in expected} == expected
    assert (entry["code"][0]["path"], entry["code"][0]["line"]) == ("train.py", line)
    assert (entry["differences"], entry["is_steady"]) == ([], True)


@pytest.mark.slow
def test_what_does_not_repeat_any_more_is_told_apart(folder: Path) -> None:
    """Other bits in every run are no other result: the answer is the same, and says so."""
    edit(folder, "torch.manual_seed(0)\n", "")
    entry = alone(verified(folder))

    assert (entry["verdict"], entry["is_steady"]) == ("different", False)
    assert entry["divergences"][0]["streams"][0] == "init"


ASKING = """
import os, sys, torch
exec(open(sys.argv[1]).read())
words, everything = open("words.txt").read(), {**os.environ}
try:
    os.environ["NONE"]
except KeyError as error:
    assert error.__traceback__.tb_next.tb_next is None  # as without samebits: this line, and that of `os`
os.environ["OWN"] = os.getenv("TMPDIR", "")
model = torch.nn.Linear(len(words), 1)
optimizer = torch.optim.SGD(model.parameters(), lr=float(os.environ.get("LR", lr)) + len(os.environ["OWN"]) * 0)
model(torch.ones(1, len(words))).sum().backward()
optimizer.step()
open("out.txt", "w").write("1") and open("out.txt").read()
"""


@pytest.mark.slow
def test_what_the_script_asks_of_its_environment_is_locked(tmp_path: Path) -> None:
    """Names and digests of variables, no value; files that it reads or is given. What it sets or writes itself is none.

    A variable that has another value, and a file that has other content, are named where bits differ.
    """
    train = "import torch; torch.manual_seed(0)" + ASKING
    for name, text in {"train.py": train, "c.py": "lr = 1", "words.txt": "a"}.items():
        (tmp_path / name).write_text(text)
    locked = samebits(tmp_path, "lock", "--no-check", "train.py", "c.py", LR="0.123", KEY="secret")
    lockfile = (tmp_path / "samebits.lock").read_text()
    (tmp_path / "c.py").write_text("lr = 2")
    (tmp_path / "words.txt").write_text("abc")
    found = samebits(tmp_path, "verify", LR="0.02")

    assert locked.returncode == 0, locked.stderr
    (home,) = Lockfile.load(tmp_path / "samebits.lock").entry("train").on.values()
    assert home.variables.keys() & {"LR", "NONE", "KEY", "OWN", "PATH"} == {"LR", "NONE"}
    assert not re.search("0.123|secret|out.txt", lockfile)
    assert found.returncode == 1, found.stderr
    assert "  besides   the script reads LR, which differs from when it was locked\n" in found.stdout
    assert "  code      c.py, changed since it was locked\n" in found.stdout
    assert "  code      words.txt, changed since it was locked\n" in found.stdout
    assert "the environment matches the locked one" not in found.stdout


@pytest.mark.slow
def test_another_number_of_threads_is_another_environment(folder: Path) -> None:
    """Unknown, and not different, with `cpu-threads` on top of the list. Once added, both are the same."""
    before = Lockfile.load(folder / "samebits.lock")
    entry = alone(verified(folder, threads=1))
    assert entry["verdict"] == "unknown"
    assert [one["name"] for one in entry["differences"]] == ["cpu-threads"]
    assert entry["differences"][0]["can_change_bits"]
    assert entry["agrees_with"] == ""
    assert entry["divergences"][0]["step"] == 0

    assert alone(verified(folder, "--update-new-only", threads=1))["written"] == "added"
    after = Lockfile.load(folder / "samebits.lock")
    assert len(after.environments) == 2
    assert before.entry("train").on.items() <= after.entry("train").on.items()
    assert [verified(folder, threads=threads)["verdict"] for threads in (1, 2)] == ["same", "same"]


@pytest.mark.slow
def test_a_pinned_number_of_threads_travels(folder: Path) -> None:
    """Locked with `cpu-threads=2`, it is run so wherever it is verified."""
    done = samebits(folder, "lock", "--no-check", "--name", "two", "--pin", "cpu-threads=2", "train.py", threads=1)

    assert done.returncode == 0, done.stderr
    assert verified(folder, "two", threads=1)["verdict"] == "same"
    assert verified(folder, "two", threads=2)["verdict"] == "same"


@pytest.mark.slow
def test_what_does_not_repeat_is_not_locked(folder: Path) -> None:
    """The check says why, and the lockfile is as it was."""
    before = (folder / "samebits.lock").read_bytes()
    edit(folder, "torch.manual_seed(0)\n", "")
    done = samebits(folder, "lock", "--quick", "--name", "other", "train.py")

    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("not locked: train.py does not repeat\n\ndifferent bits: ")
    assert "torch-rng" in done.stdout
    assert (folder / "samebits.lock").read_bytes() == before


@pytest.mark.slow
def test_what_repeats_is_locked(folder: Path) -> None:
    """After a whole check, its own run; after a quick one, a whole run besides. Locked again, the file is the same."""
    for option, repeats in ((), "checked"), (("--quick",), "looked"):
        done = samebits(folder, "lock", "--name", repeats, "--format", "json", *option, "train.py")
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["locked"]["repeats"] == repeats
    before = (folder / "samebits.lock").read_bytes()
    again = samebits(folder, "lock", "--name", "looked", "--quick", "train.py")

    assert again.returncode == 0
    assert (folder / "samebits.lock").read_bytes() == before
    assert verified(folder)["verdict"] == "same"


@pytest.mark.slow
def test_data_and_artifacts_count(folder: Path) -> None:
    """A file of the data that has changed or is gone, and an artifact of other bytes; beside their twin."""
    (folder / "data").mkdir()
    (folder / "data" / "x.bin").write_bytes(b"data")
    words = ["--data", "data", "--artifact", "{run}/last.pt", "train.py", "{run}"]
    done = samebits(folder, "lock", "--no-check", "--name", "whole", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert verified(folder, "whole")["verdict"] == "same"

    (folder / "data" / "x.bin").write_bytes(b"dat4")
    entry = alone(verified(folder, "whole"))
    assert [(one["what"], one["path"]) for one in entry["divergences"]] == [("data", "data")]
    shutil.rmtree(folder / "data")
    assert "it is not there" in verified(folder, "whole")["headline"]

    (folder / "data").mkdir()
    (folder / "data" / "x.bin").write_bytes(b"data")
    edit(folder, "print(", 'open(sys.argv[1] + "/last.pt", "ab").write(b"!")\nprint(')
    entry = alone(verified(folder, "whole"))
    assert [(one["what"], one["path"]) for one in entry["divergences"]] == [("artifact", "{run}/last.pt")]


@pytest.mark.slow
def test_an_artifact_that_lay_there_before_is_not_the_runs(folder: Path) -> None:
    """Neither when it is locked nor later, though its bytes are the same as ever."""
    (folder / "out.bin").write_bytes(b"old")
    words = ["--no-check", "--name", "own", "--artifact", "out.bin", "train.py"]
    refused = samebits(folder, "lock", *words)
    edit(folder, "print(", 'open("out.bin", "wb").write(b"new")\nopen("more.txt", "w").close()\nprint(')
    done = samebits(folder, "lock", *words)
    kept = verified(folder, "own")
    edit(folder, 'open("out.bin", "wb").write(b"new")', "pass")
    gone = verified(folder, "own")

    assert (refused.returncode, done.returncode) == (2, 0)
    assert "the run did not write out.bin" in refused.stderr
    assert kept["verdict"] == "same"
    # What is compared is not among what nobody looks at.
    assert alone(kept)["not_observed"] == ["what was written to more.txt: compare it yourself"]
    assert [(one["what"], one["path"]) for one in alone(gone)["divergences"]] == [("artifact", "out.bin")]
    assert "the run did not write it" in gone["headline"]


@pytest.mark.slow
def test_what_does_not_repeat_is_not_written_by_an_update(folder: Path) -> None:
    """Of an entry that was locked unchecked, too; and what comes next is a check."""
    edit(folder, "torch.manual_seed(", 'import os\ntorch.manual_seed(int.from_bytes(os.urandom(4), "little") + ')
    before = (folder / "samebits.lock").read_bytes()
    done = samebits(folder, "verify", "--update")

    assert done.returncode == 1
    assert "not written: the command does not repeat" in done.stdout
    assert "next      samebits check train.py" in done.stdout
    assert "--update" not in done.stdout
    assert (folder / "samebits.lock").read_bytes() == before


@pytest.mark.slow
def test_a_file_that_moves_is_not_locked(folder: Path) -> None:
    """An artifact with the time in it would be red for ever."""
    edit(folder, "print(", 'import time\nopen("log.txt", "w").write(str(time.time_ns()))\nprint(')
    done = samebits(folder, "lock", "--quick", "--name", "log", "--artifact", "log.txt", "train.py")

    assert done.returncode == 2
    assert "log.txt differs in every run, so it cannot be locked" in done.stderr


@pytest.mark.slow
def test_a_recording_is_verified_without_torch(folder: Path) -> None:
    """`--recording`: of the same command and the same pins; where these differ, nothing is accused."""
    assert samebits(folder, "run", "--no-pin", "--out", "alone", "train.py").returncode == 0
    assert samebits(folder, "run", "--out", "pinned", "train.py").returncode == 0
    assert samebits(folder, "run", "--no-pin", "--out", "other", "train.py", ".").returncode == 0
    (folder / "empty").mkdir()
    (folder / "empty" / "torch.py").write_text("raise ImportError('no torch')")
    done = samebits(folder, "verify", "--recording", "alone", PYTHONPATH=str(folder / "empty"))
    assert (done.returncode, done.stdout[:24]) == (0, "same bits: train agrees ")

    for run, why in (("pinned", "was made with other pins"), ("other", "no entry is of the command 'train.py .'")):
        done = samebits(folder, "verify", "--recording", run)
        assert (done.returncode, done.stdout) == (2, "")
        assert why in done.stderr
    edit(folder, "lr=0.1", "lr=0.2")
    assert samebits(folder, "run", "--no-pin", "--out", "changed", "train.py").returncode == 0
    assert samebits(folder, "verify", "--recording", "changed").returncode == 1


UNJUDGED = {
    "it fails before its first step": ("model = ", "raise SystemExit(3)\nmodel = ", "exit status 3"),
    "it fails after steps that agree": ("    loss = model", "    assert step < 4\n    loss = model", "AssertionError"),
    "it does not train any more": (f"range({STEPS})", "range(0)", "without one training step"),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in UNJUDGED])
def test_what_cannot_be_judged_is_not_called_different(folder: Path, name: str) -> None:
    before, after, why = UNJUDGED[name]
    edit(folder, before, after)
    entry = alone(verified(folder))

    assert entry["verdict"] == "undecided"
    assert why in entry["error"]["message"]


def test_a_command_that_is_gone_is_an_error_of_its_entry(folder: Path) -> None:
    """With the name that it may have now; nothing is run."""
    (folder / "train.py").rename(folder / "training.py")
    done = typed("verify", cwd=folder)

    assert (done.status, done.out) == (2, "")
    assert "there is no script 'train.py'" in done.err
    assert "did you mean training.py?" in done.err


def test_lockfiles_that_cannot_be_used(folder: Path) -> None:
    """Edited, cut off, in the midst of a merge, from the future, empty, gone: nothing is run, nothing is written."""
    path = folder / "samebits.lock"
    whole = path.read_text()
    for content, why in (
        (whole.replace("seed = 0", "seeds = 0"), "is cut off, or was edited: run.train.seeds means nothing"),
        (whole[: len(whole) // 2], "is cut off"),
        (f"<<<<<<< HEAD\n{whole}", "is in the middle of a merge: line 1"),
        (whole.replace("lockfile/1", "lockfile/2"), "has schema 2, and this samebits reads schemas up to 1"),
        ("", "is empty"),
    ):
        path.write_text(content)
        for words in (["verify"], ["lock", "train.py"], ["verify", "--update"]):
            done = typed(*words, cwd=folder)
            assert (done.status, done.out) == (2, "")
            assert why in done.err
            assert "Traceback" not in done.err
            assert path.read_text() == content
    path.unlink()
    assert "hint: first: samebits lock train.py" in typed("verify", cwd=folder).err
    path.write_text(whole)
    assert "locked are train" in typed("verify", "trian", cwd=folder).err


def test_what_is_shared_may_stand_in_the_configuration(folder: Path) -> None:
    """For every command that makes runs."""
    (folder / "pyproject.toml").write_text("[tool.samebits]\nshare = ['nowhere']\n")
    for command in (["verify"], *([name, "train.py"] for name in ("lock", "check", "cost", "resume"))):
        done = typed(*command, cwd=folder)
        assert (done.status, done.out) == (2, "")
        assert "nowhere: there is no such file" in done.err


def test_nothing_is_written_where_ci_is_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by `lock` nor by `--update`, and nothing is run first; a CI that is switched off is none."""
    before = (folder / "samebits.lock").read_bytes()
    monkeypatch.setenv("CI", "true")
    for words in (["lock", "train.py"], ["verify", "--update"], ["verify", "--update-new-only"]):
        done = typed(*words, cwd=folder)
        assert (done.status, done.out) == (2, "")
        assert "CI=true is set" in done.err
        assert "--write-in-ci" in done.err
    assert (folder / "samebits.lock").read_bytes() == before
    assert "there is no script" in typed("lock", "--write-in-ci", "nowhere.py", cwd=folder).err
    monkeypatch.setenv("CI", "false")
    assert "there is no script" in typed("lock", "nowhere.py", cwd=folder).err


def test_a_name_stands_for_one_command(folder: Path) -> None:
    """Another command, seed or pin under the same name is an error before anything is run."""
    for words, what in (
        (["train.py", "x"], "the command: train.py, not train.py x"),
        (["--seed", "3", "train.py"], "--seed: 0, not 3"),
        (["--pin", "hash-seed", "train.py"], "pins: none, not hash-seed"),
    ):
        done = typed("lock", "--no-check", *words, cwd=folder)
        assert done.status == 2
        assert f"'train' is locked already, with another value of {what}" in done.err
        assert "--replace" in done.err


@pytest.mark.slow
def test_a_change_that_is_meant_is_written(folder: Path) -> None:
    """`--update-new-only` does not, `--update` does; and the changed code is where the next difference counts from."""
    edit(folder, "lr=0.1", "lr=0.2")
    assert alone(verified(folder, "--update-new-only"))["verdict"] == "different"
    assert alone(verified(folder, "--update"))["written"] == "changed"

    entry = alone(verified(folder))
    assert (entry["verdict"], entry["code"]) == ("same", [])
    locked = next(iter(Lockfile.load(folder / "samebits.lock").entry("train").on.values()))
    assert locked.uncommitted == ("train.py",)


RANKS = """
import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(8, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(dist.get_rank())
for step in range(6):
    loss = model(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_are_locked_together(folder: Path) -> None:
    """Whichever comes first. Where one of them draws other data, the step and how many of them differ are named."""
    (folder / "ranks.py").write_text(RANKS)
    words = ["--", "torchrun", "--nproc-per-node", "2", "ranks.py"]
    done = samebits(folder, "lock", "--no-check", *words, threads=1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [verified(folder, "ranks", threads=1)["verdict"] for _ in range(2)] == ["same", "same"]

    (folder / "ranks.py").write_text(RANKS.replace("    loss =", "    torch.rand(step * dist.get_rank())\n    loss ="))
    place = alone(verified(folder, "ranks", threads=1))["divergences"][0]
    assert (place["step"], place["streams"][0], place["recordings"]) == (1, "batch", [2, 2])


@pytest.mark.slow
def test_from_python_it_is_the_same(folder: Path) -> None:
    """`samebits.lock` and `samebits.verify` return what the commands print, and print nothing."""
    code = """
import samebits, threading, json
locked = samebits.lock("train.py", name="python", max_steps=5, no_check=True)
found = samebits.verify("python")
told = []
def in_thread():
    try:
        samebits.verify("python")
    except samebits.SamebitsError as error:
        told.append(error.message)
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
print(json.dumps([locked.kind, str(locked).splitlines()[0], found.kind, str(found).splitlines()[0], told]))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)

    assert json.loads(done.stdout) == [
        "locked",
        "locked: python in samebits.lock, 5 steps",
        "same",
        "same bits: python agrees with samebits.lock in 5 steps: initial state, data, losses, gradients, "
        "parameters and optimizer states",
        ["verify() was called from a thread"],
    ], done.stderr


@pytest.mark.slow
def test_ctrl_c_writes_nothing(folder: Path) -> None:
    """In the midst of a run: the status that a shell gives, no traceback, and the lockfile is as it was."""
    edit(folder, f"range({STEPS})", "range(10**9)")
    before = (folder / "samebits.lock").read_bytes()
    for words in (["verify", "--update"], ["lock", "--no-check", "--name", "other", "train.py"]):
        shutil.rmtree(folder / ".samebits")
        command = [sys.executable, "-m", "samebits", *words]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as running:
            wait_for(lambda: any(folder.glob(".samebits/*/**/recording.sqlite")))
            running.send_signal(signal.SIGINT)
            _, told = running.communicate(timeout=60)
        assert running.returncode == 130, told
        assert "Traceback" not in told
    assert (folder / "samebits.lock").read_bytes() == before


@pytest.mark.slow
def test_code_that_is_edited_meanwhile_is_not_locked(folder: Path) -> None:
    """The runs began with a copy of what was there before, so the bits belong to no code that is there now."""
    edit(folder, "    optimizer.step()\n", "    optimizer.step()\n    import time; time.sleep(0.3)\n")
    before = (folder / "samebits.lock").read_bytes()
    for words in (["lock", "--no-check", "--replace", "train.py"], ["verify"]):
        shutil.rmtree(folder / ".samebits", ignore_errors=True)
        command = [sys.executable, "-m", "samebits", *words]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as one:
            wait_for(lambda: any(folder.glob(".samebits/*/**/recording.sqlite")))
            (folder / "train.py").write_text((folder / "train.py").read_text() + "# edited\n")
            told, _ = one.communicate(timeout=60)
        assert one.returncode == 2, told
        assert "train.py was changed while the command ran with a copy of it" in told
    assert (folder / "samebits.lock").read_bytes() == before


def wait_for(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.2)
