"""How samebits gets into the processes of a command, and what it says where it does not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.launch.command import parse_command
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Ended, Started, read_notes
from samebits.runfolder.spec import RunSpec
from tests.launch.conftest import PYTHON, TRAIN, notes, samebits, under_check, under_run, write
from tests.running import run_recorded

OLD_PYTHONS = sorted(Path("~/.pyenv/versions").expanduser().glob("[23].[0-9].*/bin/python"))


def test_every_python_process_of_a_command_is_entered(tmp_path: Path) -> None:
    """Through a shell, in programs that are started, and in processes that are spawned; a forked one goes along."""
    write(
        tmp_path,
        {
            "it.py": """
                import multiprocessing, os, subprocess, sys
                if __name__ == "__main__":
                    subprocess.run([sys.executable, "-c", "pass"])
                    worker = multiprocessing.get_context("spawn").Process(target=print)
                    worker.start(); worker.join()
                    os.fork() or os._exit(0)
                    os.wait()
            """
        },
    )

    done = under_run(["sh", "-c", f"{PYTHON} it.py"], tmp_path)

    started = [" ".join(note.argv) for note in notes(tmp_path, Started)]
    assert (done.status, done.err) == (0, "")
    for mark in ("it.py", "-c pass", "spawn_main"):
        assert sum(mark in words for words in started) == 1
    assert len(notes(tmp_path, Ended)) == len(started)


def test_only_runs_of_your_own_are_logged_to_experiment_trackers(tmp_path: Path) -> None:
    """A check would fill a project with a dozen runs; whoever wants that sets the variable."""
    write(tmp_path, {"it.py": "import os; print(os.environ.get('WANDB_MODE'), os.environ.get('SWANLAB_MODE'))"})
    words = [PYTHON, "it.py"]

    assert under_run(words, tmp_path).out.split() == ["None", "None"]
    assert under_check(words, tmp_path).out.split() == ["offline", "offline"]
    assert under_check(words, tmp_path, {"WANDB_MODE": "online"}).out.split() == ["online", "offline"]


def test_the_inner_of_two_runs_wins(tmp_path: Path) -> None:
    """Under `samebits run samebits run script`, the script is treated as the inner one says, and noted there."""
    write(tmp_path, {"it.py": "import os, time; print(0 < time.time() - 1.79e9 < 1e4, os.environ['SAMEBITS_PLAN'])"})
    inner = ("run", "--no-pin", "--out", "inner", PYTHON, "it.py")

    once = samebits("run", "--pin", "clock", "-m", "it", cwd=tmp_path)
    twice = samebits(
        "run", "--pin", "clock", "--out", "outer", "--", sys.executable, "-m", "samebits", *inner, cwd=tmp_path
    )

    assert once.out.split()[0] == "True"
    assert twice.out.split() == ["False", str(tmp_path / "inner" / "plan.json")]
    assert twice.err == ""
    assert [note.argv[1] for note in read_notes(tmp_path / "inner", Started)] == ["it.py"]
    assert [note.argv[1] for note in read_notes(tmp_path / "outer", Started)] == ["-m"]


@pytest.mark.parametrize("command", ["run", "check"])
def test_isolated_python_is_refused_before_anything_runs(command: str, tmp_path: Path) -> None:
    """A clear error, and no trace of a run."""
    write(tmp_path, {"it.py": "open('trace', 'w')"})

    done = samebits(command, PYTHON, "-Es", "it.py", cwd=tmp_path)

    assert done.status == {"run": 125, "check": 2}[command]
    assert done.err.startswith(f"error: {PYTHON} is started with -E, which keeps samebits out\n\nhint: drop -E")
    assert [path.name for path in tmp_path.iterdir()] == ["it.py"]


@pytest.mark.parametrize("words", [["env", "-u", "PYTHONPATH", PYTHON, "it.py"], ["sh", "-c", f"{PYTHON} -I it.py"]])
def test_a_command_that_kept_us_out_is_found_out_afterwards(words: list[str], tmp_path: Path) -> None:
    """`run` lets the command be and says so; `check` cannot decide."""
    write(tmp_path, {"it.py": "print('ran'); raise SystemExit(4 * ('4' in __import__('sys').argv))"})

    run = samebits("run", *words, "4", cwd=tmp_path)
    check = samebits("check", *words, cwd=tmp_path)

    assert (run.status, run.out) == (0 if words[0] == "sh" else 4, "ran\n")
    assert run.err == "samebits: did not get into any Python process of this command, so nothing was pinned inside\n"
    assert (check.status, check.out) == (2, "")
    assert check.err.startswith("error: the command ran, but samebits did not get into any Python process of it\n")


@pytest.mark.skipif(not OLD_PYTHONS, reason="needs a Python older than 3.10")
@pytest.mark.parametrize("python", sorted({*OLD_PYTHONS[:1], *OLD_PYTHONS[-1:]}), ids=lambda path: path.parts[-3])
def test_a_python_too_old_says_so(python: Path, tmp_path: Path) -> None:
    """The command runs as it is, and the reason is told."""
    write(tmp_path, {"it.py": "print('ran')"})

    run = samebits("run", str(python), "it.py", cwd=tmp_path)
    check = samebits("check", "--format", "json", str(python), "it.py", cwd=tmp_path)

    error = json.loads(check.out)["error"]
    assert (run.status, run.out) == (0, "ran\n")
    assert "samebits needs Python 3.10 or newer" in run.err
    assert error["kind"] == "not_injected"
    assert error["message"].startswith(f"samebits could not start in {python}")
    assert error["hint"] == "run the command with a newer Python"


def test_python_without_torch_is_named(tmp_path: Path) -> None:
    """A script that asks for torch in vain, and one that never asks, are told apart."""
    write(tmp_path, {"asks.py": "import torch", "never.py": ""})
    bare = tmp_path / "bare" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)

    asks = json.loads(samebits("check", "--format", "json", str(bare), "asks.py", cwd=tmp_path).out)
    never = json.loads(samebits("check", "--format", "json", str(bare), "never.py", cwd=tmp_path).out)

    assert asks["error"]["kind"] == never["error"]["kind"] == "no_torch"
    assert asks["error"]["message"] == f"{bare} has no torch"
    own = "python" if shutil.which("python") == sys.executable else sys.executable
    assert asks["error"]["hint"] == f"name a Python that has torch: samebits check {own} ..."
    assert never["error"]["message"] == "the command never imported torch"


def test_torch_behind_an_import_hook_is_not_missed(tmp_path: Path) -> None:
    """A finder that answers before ours loads torch past us: no verdict without a recording."""
    hook = """
        import importlib.machinery, sys
        class Hook:
            find_spec = staticmethod(importlib.machinery.PathFinder.find_spec)
        sys.meta_path.insert(0, Hook)
    """
    write(tmp_path, {"hook.py": hook, "it.py": "import hook, torch", "torch.py": "__version__ = '2.13.0'"})

    done = samebits("check", "it.py", cwd=tmp_path)

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "error: the program's own import hook loaded torch past samebits\n\n"
        "hint: put that hook in place after `import torch`\n"
    )


MOVES = """
import os, subprocess, sys
os.chdir("/")
del os.environ["PYTHONPATH"]
os.closerange(3, 256)
"""


def test_a_script_that_moves_away_is_recorded_all_the_same(tmp_path: Path) -> None:
    """Neither another folder, nor a lost environment, nor closed files, nor an old helper process matter."""
    helper = f"subprocess.run([{str(OLD_PYTHONS[0])!r}, '-c', '1'])" if OLD_PYTHONS else "pass"
    write(tmp_path, {"it.py": MOVES.replace("del os", f"{helper}\ndel os", 1) + TRAIN})

    done = samebits("run", "--out", "run", "it.py", cwd=tmp_path)

    (recording,) = RunFolder(tmp_path / "run").recordings()
    assert done.status == 0
    assert (recording.steps, recording.complete) == (3, True)


WORKERS = """
    import os, random
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Data(Dataset):
        def __len__(self):
            return 8
        def __getitem__(self, index):
            return torch.full((2,), float(os.urandom(1)[0]))

    if __name__ == "__main__":
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for how, workers in (("fork", 2), ("spawn", 1)):
            for batch in DataLoader(Data(), batch_size=4, num_workers=workers, multiprocessing_context=how):
                optimizer.zero_grad(); model(batch).sum().backward(); optimizer.step()
"""


def test_workers_witness_into_the_run_of_their_owner(tmp_path: Path) -> None:
    """Forked and spawned DataLoader workers note their draws; the one recording is the trainer's."""
    write(tmp_path, {"it.py": WORKERS})

    outcome = run_recorded(parse_command([PYTHON, str(tmp_path / "it.py")]), RunSpec(witness=True), tmp_path / "run")

    (recording,) = outcome.folder.recordings()
    drawing = [
        journal
        for journal in outcome.folder.path.glob("journal.*")
        if any(
            note["note"] == "witness" and note["site"] and note["site"]["function"].endswith("__getitem__")
            for note in map(json.loads, journal.read_text().splitlines())
        )
    ]
    assert outcome.folder.stderr.read_text() == ""
    assert (recording.steps, recording.complete) == (4, True)
    assert len(drawing) == 3


def test_every_rank_of_torchrun_has_a_recording(tmp_path: Path) -> None:
    """One for each, and none for the launcher."""
    write(
        tmp_path,
        {"it.py": f"import os, sys\nsys.stdout.write(f'{{os.environ[\"RANK\"]}} {{sys.argv[1:]}}\\n')\n{TRAIN}"},
    )
    torchrun = str(Path(PYTHON).with_name("torchrun"))

    done = samebits(
        "run", "--out", "run", torchrun, "--standalone", "--nproc-per-node", "2", "it.py", "--pin", "x", cwd=tmp_path
    )

    recordings = RunFolder(tmp_path / "run").recordings()
    assert done.status == 0
    assert sorted(done.out.splitlines()) == ["0 ['--pin', 'x']", "1 ['--pin', 'x']"]
    assert [(r.rank, r.steps, r.complete) for r in recordings] == [(0, 3, True), (1, 3, True)]
    assert RunFolder(tmp_path / "run").manifest()["ranks"] == [0, 1]


def test_steps_before_os_exit_are_all_recorded(tmp_path: Path) -> None:
    """Leaving so is common after training: how much was written is no matter of time; the status may have its name."""
    write(tmp_path, {"it.py": TRAIN.replace("range(3)", "range(300)") + "import os; os._exit(status=3)"})

    done = samebits("run", "--no-pin", "--out", "run", "it.py", cwd=tmp_path)

    (recording,) = RunFolder(tmp_path / "run").recordings()
    assert (done.status, done.err) == (3, "")
    assert (recording.steps, recording.complete) == (300, True)
