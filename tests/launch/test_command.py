"""What was typed, understood before anything is started."""

import os
import shlex
from pathlib import Path

import pytest

from samebits.base.errors import CommandNotFoundError, InjectionError, SamebitsError, UsageError
from samebits.launch.command import is_python, parse_command
from tests.launch.conftest import PYTHON, write


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"train.py": "", "sub/train.py": "", "app/__main__.py": "", "plain/notes.txt": "", "tool": ""})
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "python", "script"),
    [
        ("train.py --lr '3 4'", [PYTHON], "train.py"),
        ("-m package.train --lr 3", [PYTHON], None),
        (f"env -u PYTHONPATH {PYTHON} -I nowhere.py", [], None),
    ],
    ids=["a script", "a module", "a launcher, which is not looked into"],
)
def test_python_runs_scripts_and_modules(text: str, python: list[str], script: str | None) -> None:
    """`train.py --lr 3` is short for `python train.py --lr 3`, and is shown as typed; programs run themselves."""
    words = shlex.split(text)
    command = parse_command(words)

    assert (command.argv, command.typed) == ((*python, *words), tuple(words))
    assert str(command) == text
    assert command.script == (script and os.path.abspath(script))


@pytest.mark.parametrize(
    ("words", "script"),
    [
        ([], "train.py"),
        (["-u"], "train.py"),
        (["-sPBO"], "train.py"),
        (["-Xdev"], "train.py"),
        (["-X", "importtime", "-W", "error"], "train.py"),
        (["-Wignore::SomeWarning", "-bb"], "train.py"),
        (["-OW", "error"], "train.py"),
        (["--check-hash-based-pycs", "always"], "sub/train.py"),
        (["--"], "train.py"),
        ([], "app"),
    ],
)
def test_the_script_is_found_behind_pythons_own_flags(words: list[str], script: str) -> None:
    """Flags with and without values are told apart as Python tells them apart."""
    command = parse_command([PYTHON, *words, script, "-I"])

    assert command.script == os.path.abspath(script)
    assert command.argv == (PYTHON, *words, script, "-I")


@pytest.mark.parametrize("words", [["-c", "pass -I"], ["-m", "nowhere", "-I"], ["-mnowhere"], ["-Oc", "1"], ["-"]])
def test_code_modules_and_standard_input_have_no_script(words: list[str]) -> None:
    """They are left to Python."""
    assert parse_command([PYTHON, *words]).script is None


@pytest.mark.parametrize(
    "words", [["-I"], ["-E"], ["-S"], ["-Es"], ["-sE"], ["-uI"], ["-X", "dev", "-S"], ["-IW", "error"]]
)
@pytest.mark.parametrize("rest", [["train.py"], ["-m", "train"]])
def test_flags_that_keep_us_out_are_refused(words: list[str], rest: list[str]) -> None:
    """Better no run than one in which nothing was seen."""
    with pytest.raises(InjectionError, match="keeps samebits out"):
        parse_command([PYTHON, *words, *rest])


EXECUTABLE = "name what runs it: sh ./tool, or python ./tool"
SCRIPT = "add the script, a -m module, or -c code"
PACKAGE = "give a script, or python -m package"


@pytest.mark.parametrize(
    ("words", "kind", "message", "hint"),
    [
        ([], UsageError, "there is no command to run", "give a script with its options: train.py --lr 3"),
        (["trian.py"], CommandNotFoundError, "there is no script 'trian.py'", "did you mean train.py?"),
        (["sub/tran.py"], CommandNotFoundError, "there is no script 'sub/tran.py'", "did you mean sub/train.py?"),
        (["no/a.py"], CommandNotFoundError, "there is no script 'no/a.py'", "looked in {}/no"),
        (["train"], CommandNotFoundError, "there is no program 'train'", "did you mean train.py?"),
        (["pyhton", "train.py"], CommandNotFoundError, "there is no program 'pyhton'", "looked in {}"),
        (["./tool"], CommandNotFoundError, "'./tool' is not executable", EXECUTABLE),
        (["sub"], CommandNotFoundError, "'sub' is a folder", "where it has a __main__.py: python sub"),
        ([PYTHON, "tarin.py"], CommandNotFoundError, "there is no script 'tarin.py'", "did you mean train.py?"),
        ([PYTHON, "plain"], CommandNotFoundError, "'plain' is a folder without __main__.py", PACKAGE),
        ([PYTHON], UsageError, f"{PYTHON!r} runs no script", SCRIPT),
        (["-m"], UsageError, "-m names no module", "add it: -m package.train"),
        ([PYTHON, "-X"], UsageError, f"'{PYTHON} -X' runs no script", SCRIPT),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_named(words: list[str], kind: type[SamebitsError], message: str, hint: str) -> None:
    """The error names the word, and the hint the nearest that exists."""
    with pytest.raises(kind) as caught:
        parse_command(words)

    assert caught.value.message == message
    assert caught.value.hint == hint.format(os.getcwd())


@pytest.mark.parametrize("name", ["python", "python3", "python3.14", "python3.13t", "env/bin/python3.12d"])
def test_an_interpreter_is_known_by_its_name(name: str) -> None:
    """And what only begins like one is none."""
    assert is_python(name)
    assert not is_python(f"{name}-config")
    assert not is_python(f"i{name.rpartition('/')[2]}")
