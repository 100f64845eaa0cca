"""What somebody meets who gets the command line wrong: one sentence, a hint, the right status, never a traceback."""

import inspect
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

import samebits as samebits_api
from samebits.cli.main import find_command, helps
from tests.cli.typed import typed
from tests.launch.conftest import PYTHON, SAMEBITS, TRAIN, Seen, only_run, plain, samebits, write

FAILURE = {"run": 125, "check": 2}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "print('trained')"})


WRONG = {
    "no command": ((), "there is no command to run", "give a script with its options: train.py --lr 3"),
    "script": (("trian.py",), "there is no script 'trian.py'", "did you mean train.py?"),
    "a quotation mark": (("train.py 'a",), 'there is no program "train.py \'a"', "drop the quotation marks"),
    "program": (("pyton", "train.py"), "there is no program 'pyton'", "looked in"),
    "option": (("--rnus", "3", "train.py"), "no such option", "samebits {} --help"),
    "no value": (("--seed",), "option '--seed' requires an argument", "samebits {} --help"),
    "a word for a number": (("--seed", "x", "train.py"), "invalid value for '--seed': 'x'", "samebits {} --help"),
    "factor": (("--pin", "torch_rgn", "train.py"), "there is no factor 'torch_rgn'", "did you mean torch-rng?"),
    "seed is no factor": (
        ("--pin", "seed=1", "train.py"),
        "there is no factor 'seed'",
        "give --seed N: pinned factors are seeded from it",
    ),
    "value": (("--pin", "cpu-threads=many", "train.py"), "cpu-threads takes a number of threads, got 'many'", "for"),
    "no value wanted": (("--pin", "clock=3", "train.py"), "clock takes no value, got '3'", "write --pin clock"),
    "an empty factor": (("--pin", "", "train.py"), "there is no factor ''", "the factors are python-rng, "),
}
WRONG_RUN = {
    "no pin": (("--no-pin", "--pin", "clock", "train.py"), "--no-pin and --pin contradict one another", "leave one"),
}
WRONG_CHECK = {
    "varied": (("--vary", "file_ordr", "train.py"), "there is no factor 'file_ordr'", "did you mean file-order?"),
    "one run": (("--runs", "1", "train.py"), "--runs must be at least 2, got 1", ""),
    "no jobs": (("--jobs", "0", "train.py"), "--jobs must be at least 1, got 0", ""),
    "a word": (
        ("--jobs", "all", "train.py"),
        "invalid value for '--jobs': 'all' is neither a number of runs nor auto",
        "",
    ),
    "no steps": (("--max-steps", "0", "train.py"), "--max-steps must be at least 1, got 0", ""),
    "no time": (("--timeout", "0", "train.py"), "--timeout must be more than 0 seconds, got 0", ""),
    "no number": (("--timeout", "nan", "train.py"), "--timeout must be more than 0 seconds, got nan", ""),
    "shared": (("--share", "dta", "train.py"), "invalid value for '--share': Path 'dta' does not exist", ""),
    "both": (("--pin", "clock", "--vary", "clock", "train.py"), "clock cannot be both pinned and varied", "leave out"),
}


@pytest.mark.parametrize("name", [*WRONG, *WRONG_RUN])
def test_a_wrong_line_is_explained(name: str, tmp_path: Path) -> None:
    """Nothing is run, nothing is left behind; `run` keeps its own failures apart from the script's statuses."""
    words, message, hint = {**WRONG, **WRONG_RUN}[name]

    done = typed("run", *words, cwd=tmp_path)

    assert (done.status, done.out) == (125, "")
    assert done.err.startswith(f"error: {message}")
    assert f"\n\nhint: {hint.format('run')}" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.parametrize("name", [*WRONG, *WRONG_CHECK])
def test_a_wrong_line_is_explained_in_json(name: str, tmp_path: Path) -> None:
    """Stdout is one document with the same error, stderr is empty; nothing is left behind."""
    words, message, hint = {**WRONG, **WRONG_CHECK}[name]

    done = typed("check", "--format", "json", *words, cwd=tmp_path)

    document = json.loads(done.out)
    assert (done.status, done.err) == (2, "")
    assert (document["schema"], document["verdict"], document["runs"]) == ("samebits.check/1", "undecided", [])
    assert document["error"]["message"].startswith(message)
    assert document["error"]["hint"].startswith(hint.format("check"))
    assert document["error"]["kind"] in ("usage", "command_not_found", "unknown_factor")
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


OTHER_WAYS = {
    "quotation marks": (("python train.py --lr 3",), "drop the quotation marks: python train.py --lr 3"),
    "a variable": (("SEED=1", "python", "train.py"), "variables come before samebits, or after env: env SEED=1 python"),
    "a module": (("pkg.train", "--lr", "3"), "a module is given after -m: -m pkg.train --lr 3"),
    "a notebook": (("it.ipynb",), "turn it into a script: jupyter nbconvert --to script it.ipynb"),
}


def test_other_ways_to_name_a_training_are_understood(tmp_path: Path) -> None:
    """Each is answered with the words that would run it."""
    write(tmp_path, {"pkg/train.py": "", "it.ipynb": "{}"})

    for words, hint in OTHER_WAYS.values():
        done = typed("check", *words, cwd=tmp_path)

        assert done.status == 2
        assert f"\n\nhint: {hint}" in done.err


def test_a_closed_standard_output_is_said(tmp_path: Path) -> None:
    """There is nobody to answer; what else is opened is not written into."""
    done = plain(["sh", "-c", f"exec {SAMEBITS} check --dry-run train.py >&-"], tmp_path)

    assert (done.status, done.err) == (2, "error: cannot write the answer: standard output is closed\n")


def test_the_format_of_the_script_is_not_ours(tmp_path: Path) -> None:
    """`--format json` behind the script's name is an option of the script."""
    done = typed("check", "trian.py", "--format", "json", cwd=tmp_path)

    assert done.out == ""
    assert done.err.startswith("error: there is no script 'trian.py'\n")


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["chek", "train.py"], "there is no command 'chek'", "did you mean check?"),
        (["lint", "--explain", "SB202", "--fix"], "--explain shows a page, and looks at nothing", "leave out --fix"),
        (["lint", "--unsafe-fixes"], "--unsafe-fixes alone does nothing", "add --diff to see them, or --fix"),
        (["check", "--fix-in-ci", "train.py"], "--fix-in-ci alone does nothing", "add --fix"),
        (["train.py", "--lr", "3"], "there is no command 'train.py'", "did you mean: samebits check train.py --lr 3"),
        (["python3", "x"], "there is no command 'python3'", "did you mean: samebits check python3 x"),
        (["qqq"], "there is no command 'qqq'", "samebits --help lists them"),
        (["--bogus"], "no such option", "samebits --help"),
        (["diff", "nowhere", "train.py"], "there is no run folder nowhere", "runs are kept under .samebits/"),
        (["diff", "train.py", "train.py"], "train.py is not a run folder: it holds no manifest.json", "runs are kept"),
        (["lint", "-m", "train"], "no such option '-m'", "samebits lint --help"),
        (["diff", "one"], "two runs are compared, and 1 run was named", "samebits diff RUN RUN"),
        (["factors", "x"], "got unexpected extra argument (x)", "samebits factors --help"),
        (["run", "--level", "op", "--steps", "3:", "train.py"], "--steps takes a step or FIRST:LAST", "for example"),
    ],
)
def test_other_wrong_lines_are_explained(words: list[str], message: str, hint: str, tmp_path: Path) -> None:
    """Commands that do not exist, and those without a command behind them."""
    done = typed(*words, cwd=tmp_path)

    assert (done.status, done.out) == (FAILURE.get(words[0], 2), "")
    assert done.err.startswith(f"error: {message}")
    assert f"\n\nhint: {hint}" in done.err


@pytest.mark.parametrize(
    "words", [["check", "--dry-run"], ["lint", "--diff"], ["lint", "--explain", "SB202"]], ids=" ".join
)
def test_what_has_no_form_for_programs_says_so(words: list[str], tmp_path: Path) -> None:
    """In the form that was asked for."""
    done = typed(*words, "--format", "json", "train.py", cwd=tmp_path)

    assert (done.status, done.err) == (2, "")
    assert json.loads(done.out)["error"]["hint"] == "leave out --format"


def test_a_mistake_of_ours_is_not_mistaken_for_an_answer(tmp_path: Path) -> None:
    """Python ends a crashed program with 1, which means different bits here."""
    modules = "import sys; from samebits.cli import main; from samebits.cli.commands import check"
    broken = f"{modules}; check.first_runs = None; main.main(sys.argv[1:])"
    words = [PYTHON, "-c", broken, "check", "--dry-run", "train.py"]

    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert done.stderr.endswith("\n\nhint: please report the lines above\n")


def test_where_no_runs_can_be_made_that_is_said(tmp_path: Path) -> None:
    """Windows has none of these modules."""
    without = "import sys; sys.modules |= dict.fromkeys(('fcntl', 'resource', 'termios'))"
    # Python's own modules are imported as those of this system.
    known = "from samebits.cli import main; main.find_command(sys.argv[1])"
    windows = f"{without}; {known}; sys.platform = 'win32'; main.main(sys.argv[1:])"

    for command, status in FAILURE.items():
        words = [PYTHON, "-c", windows, command, "train.py"]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (status, "")
        assert done.stderr.startswith("error: samebits makes its runs on Linux, and this is Windows\n\nhint: start it")


CONFIGS = {
    "runz = 3": ("unknown key 'runz' in [tool.samebits] of {}", "did you mean runs?"),
    "max_runs = 3": ("unknown key 'max_runs' in [tool.samebits] of {}", "did you mean max-runs?"),
    "q = 3": ("unknown key 'q' in [tool.samebits] of {}", "known keys are seed, runs, max-runs, "),
    "runs = '3'": ("runs = '3' in [tool.samebits] of {} should be a whole number", ""),
    "runs = 2.5": ("runs = 2.5 in [tool.samebits] of {} should be a whole number", ""),
    "jobs = true": ('jobs = True in [tool.samebits] of {} should be a whole number or "auto"', ""),
    "jobs = 'all'": ("jobs = 'all' in [tool.samebits] of {} should be a whole number or \"auto\"", ""),
    "timeout = 'x'": ("timeout = 'x' in [tool.samebits] of {} should be a number of seconds", ""),
    "keep = 0": ("keep = 0 in [tool.samebits] of {} should be at least 1", ""),
    "runs = 1": ("runs = 1 in [tool.samebits] of {} should be at least 2", ""),
    "max-steps = 0": ("max-steps = 0 in [tool.samebits] of {} should be at least 1", ""),
    "timeout = -1": ("timeout = -1 in [tool.samebits] of {} should be more than 0 seconds", ""),
    "level = 'steps'": ('level = \'steps\' in [tool.samebits] of {} should be "step" or "op"', ""),
    "pin = 'clock'": ("pin = 'clock' in [tool.samebits] of {} should be a list of factors", ""),
    "vary = ['clok']": ("vary in [tool.samebits] of {}: there is no factor 'clok'", "did you mean clock?"),
    "runs = ": ("{} cannot be read: Invalid value", "fix it, or run samebits from another folder"),
}


@pytest.mark.parametrize("line", CONFIGS)
def test_a_wrong_configuration_is_explained(line: str, tmp_path: Path) -> None:
    """The error names the key, the value and the file, from whichever folder below it."""
    message, hint = CONFIGS[line]
    path = tmp_path / "pyproject.toml"
    write(tmp_path, {"pyproject.toml": f"[tool.samebits]\n{line}\n", "sub/train.py": ""})

    done = typed("check", "--format", "json", "train.py", cwd=tmp_path / "sub")

    error = json.loads(done.out)["error"]
    assert (done.status, error["kind"]) == (2, "config")
    assert error["message"].startswith(message.format(path))
    assert error["hint"].startswith(hint)


@pytest.mark.parametrize(
    "text", ["[tool.other]\nruns = 'x'\n", "", "this is [no toml", "tool = 3\n", "[tool]\nsamebits = 3  #\n"]
)
def test_only_our_own_table_matters(text: str, tmp_path: Path) -> None:
    """Another tool's table, or a file that says nothing about samebits, is not ours to judge."""
    write(tmp_path, {"pyproject.toml": text})

    done = typed("check", "--dry-run", "train.py", cwd=tmp_path)

    assert done.status == (2 if "samebits" in text else 0)
    assert "Traceback" not in done.err


def test_what_is_typed_counts_for_a_factor_that_is_configured_otherwise(tmp_path: Path) -> None:
    """A pin that is typed for one that is varied by the file, the reverse, and another interpreter."""
    write(tmp_path, {"pyproject.toml": "[tool.samebits]\nvary = ['cpu-threads']\npin = ['clock']\n"})

    pinned = typed("check", "--dry-run", "--pin", "cpu-threads=2", "train.py", cwd=tmp_path)
    varied = typed("check", "--dry-run", "--vary", "clock", "train.py", cwd=tmp_path)
    against = typed("check", "--against", "no/python", "train.py", cwd=tmp_path)

    assert [pinned.status, varied.status] == [0, 0]
    assert "pinned cpu-threads" in pinned.out
    assert "pinned clock" not in varied.out
    assert "no/python" in against.err


def test_the_configuration_gives_defaults(tmp_path: Path) -> None:
    """Options win over the file, the file over what is built in."""
    table = "[tool.samebits]\nruns = 4\nmax-runs = 9\ntimeout = 2.5\npin = ['clock', 'cpu-threads=2']\n"
    write(tmp_path, {"pyproject.toml": table})

    configured = typed("check", "--dry-run", "train.py", cwd=tmp_path).out
    chosen = typed("check", "--dry-run", "--runs", "2", "--pin", "file-order", "train.py", cwd=tmp_path).out

    assert len(re.findall(r"^  run \d", configured, re.M)) == 4
    assert "pinned clock, cpu-threads" in configured
    at_once = "(up to 2|1) at a time"
    assert re.search(rf"at most 9 runs, {at_once}, 2.5 s each", configured)
    assert len(re.findall(r"^  run \d", chosen, re.M)) == 2
    assert "pinned file-order" in chosen
    assert not (tmp_path / ".samebits").exists()


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_deleted_folder_is_named(command: str, tmp_path: Path) -> None:
    """Shells go on standing in a folder that is gone."""
    words = ["sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; exec "$@"', "-", SAMEBITS, command, "train.py"]

    done = plain(words, tmp_path)

    assert (done.status, done.err.splitlines()[0]) == (FAILURE[command], "error: the current folder was deleted")


def test_help_lists_the_commands(tmp_path: Path) -> None:
    """On stdout when asked for; without any word on stderr, as a mistake."""
    asked, alone = typed("--help", cwd=tmp_path), typed(cwd=tmp_path)

    assert (asked.status, asked.err) == (0, "")
    for name, summary in helps().items():
        assert re.search(rf"^  {name} +{re.escape(summary)}$", asked.out, re.M)
    assert alone == Seen(2, b"", asked.stdout)


@pytest.mark.parametrize("name", helps())
def test_every_command_has_help_with_an_example(name: str, tmp_path: Path) -> None:
    """The example stands on a line of its own, and every option is explained."""
    done = typed(name, "--help", cwd=tmp_path)

    assert (done.status, done.err) == (0, "")
    assert re.search(rf"^  samebits {name}\b", done.out, re.M)
    assert not re.search(r"^  --?\w\S*( \S+)?$(?!\n {10})", done.out, re.M)


# How an answer is shown is the command line's own; --allow-unknown is about its exit status, --against a command apart.
SHOWN = {"form", "verbose", "dry_run", "allow_unknown"} | {"against"}


@pytest.mark.parametrize("name", ["check", "lock", "verify"])
def test_the_function_takes_what_the_command_takes(name: str) -> None:
    """Each option of a command is a parameter of the function of that name, which tells of progress only if asked."""
    options = {option.name for option in find_command(name).params}
    parameters = {*inspect.signature(getattr(samebits_api, name)).parameters}

    assert parameters - options == {"progress"}
    assert options - parameters <= SHOWN
    assert all(f"    {one}: " in inspect.getdoc(getattr(samebits_api, name)) for one in parameters - {"names"})


def test_version(tmp_path: Path) -> None:
    """One line."""
    assert re.fullmatch(r"samebits, version \d+\.\d+\.\d+\n", typed("--version", cwd=tmp_path).out)


FAILS = "import sys\nprint('before')\nprint('last words', file=sys.stderr)\nraise SystemExit(3)\n"


def test_a_script_that_always_fails_is_quoted(tmp_path: Path) -> None:
    """Undecided, with the end of what it wrote and where the rest is; it is run twice before that is said."""
    write(tmp_path, {"train.py": "open('../runs-that-fail', 'a').write('x')\n" + FAILS})

    done = samebits("check", "train.py", cwd=tmp_path)

    assert (done.status, done.out) == (2, "")
    assert done.err == (
        "error: the command failed in 2 of 2 runs (exit status 3); the end of its output:\n  last words\n\n"
        "hint: does it work without samebits? Under a check nothing can be typed in, and each run has a copy of the "
        "folder; the whole output is in "
        f"{only_run(tmp_path)}/1-control/stderr.log\n"
    )
    assert (tmp_path.parent / "runs-that-fail").read_text() == "xx"


def test_a_script_that_fails_once_differs(tmp_path: Path) -> None:
    """A difference in outcome is a divergence."""
    once = (
        "from pathlib import Path\nPath('runs').open('a').write('x')\n{}\nif Path('runs').read_text() == 'xx': 1 / 0\n"
    )
    write(tmp_path, {"train.py": once.format(TRAIN)})

    done = samebits("check", "--format", "json", "--runs", "2", "--max-runs", "3", "train.py", cwd=tmp_path)

    # In a folder of its own it does not fail; in what another one left it does.
    verdict = json.loads(done.out)
    assert (done.status, verdict["verdict"], verdict["error"]) == (1, "different", None)
    place = verdict["divergent"]["divergence"]
    assert place["stream"] == "outcome"
    assert place["ending"].startswith("run 3 ended with exit status 1 after 3 steps, saying: ")
    assert [run["exit_code"] for run in verdict["runs"]] == [0, 0, 1]


def test_a_script_that_trains_nothing_is_undecided(tmp_path: Path) -> None:
    """Torch alone is no training."""
    write(tmp_path, {"train.py": "import torch; torch.ones(2).sum()"})

    done = samebits("check", "train.py", cwd=tmp_path)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("error: the command ended without one training step: no optimizer step, no backward")


def test_progress_is_for_terminals_and_never_on_stdout(tmp_path: Path) -> None:
    """On a terminal stderr shows the runs; stdout is the answer alone."""
    write(tmp_path, {"train.py": "import time; time.sleep(1); raise SystemExit(1)"})
    leader, follower = pty.openpty()

    words = [SAMEBITS, "check", "--format", "json", "train.py"]
    done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=follower, stdin=subprocess.DEVNULL)
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    os.close(follower)

    assert json.loads(done.stdout)["error"]["kind"] == "script_failed"
    assert "run 1   control  starting" in shown
