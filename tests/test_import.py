"""`import samebits` does nothing, and the command line answers at once."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import samebits

IMPORT_SECONDS = 0.05
HELP_SECONDS = 0.2


def cpu_seconds(arguments: list[str]) -> float:
    """What a Python command computes; unlike the time on the wall, it does not grow when others compute too."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def added_seconds(arguments: list[str]) -> float:
    """What it computes beyond an interpreter that does nothing: the best of several, side by side."""
    pairs = [(cpu_seconds(arguments), cpu_seconds(["-c", "pass"])) for _ in range(7)]
    return min(pair[0] for pair in pairs) - min(pair[1] for pair in pairs)


def modules_after(code: str) -> set[str]:
    output = subprocess.check_output(
        [sys.executable, "-c", f"{code}\nimport sys, json; print(json.dumps([*sys.modules]))"]
    )
    return set(json.loads(output.splitlines()[-1]))


def test_importing_loads_nothing() -> None:
    """Neither torch nor NumPy, nor anything else that is installed; of samebits what loads its names when used."""
    loaded = modules_after("import samebits") - modules_after("pass")

    outside = {name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names}
    assert outside == {"samebits", "samebits.base", "samebits.base.lazy"}


@pytest.mark.parametrize("name", samebits.__all__)
def test_every_public_name_is_there_without_torch(name: str) -> None:
    """Resolved when it is first used, and the same object ever after."""
    assert getattr(samebits, name) is getattr(samebits, name)
    assert name in dir(samebits)


def test_using_the_library_loads_neither_torch_nor_numpy() -> None:
    """Only what is pinned in them needs them."""
    code = "import samebits, samebits.cli.main; samebits.status()"
    pin = "samebits.pin(factors=['clock', 'python-rng', 'file-order'])"

    assert not {"torch", "numpy"} & modules_after(f"{code}; {pin}")


def test_an_unknown_name_is_an_attribute_error() -> None:
    """With the name; and a star import gives the public names only."""
    namespace: dict[str, object] = {}
    exec("from samebits import *", namespace)

    with pytest.raises(AttributeError, match="module 'samebits' has no attribute 'pim'"):
        samebits.pim  # noqa: B018
    assert {name for name in namespace if not name.startswith("__")} == {
        name for name in samebits.__all__ if not name.startswith("__")
    }


def test_importing_takes_no_time() -> None:
    """Less than 50 ms over an interpreter that does nothing."""
    assert added_seconds(["-c", "import samebits"]) < IMPORT_SECONDS


def test_help_takes_little_time() -> None:
    """Less than 200 ms over an interpreter that does nothing."""
    assert added_seconds(["-m", "samebits", "--help"]) < HELP_SECONDS


def test_a_slow_import_would_be_noticed() -> None:
    """The planted failure: what computes for 100 ms is seen to take more than 50."""
    code = "import time\nstart = time.process_time()\nwhile time.process_time() < start + 0.1: pass"

    assert added_seconds(["-c", code]) > IMPORT_SECONDS


def test_a_folder_in_the_way_changes_nothing(tmp_path: Path) -> None:
    """Importing works from any folder, also one that holds a file with the name of a module of ours."""
    (tmp_path / "clock.py").write_text("raise SystemExit('wrong module')\n")
    environment = {**os.environ, "PYTHONPATH": str(Path(samebits.__file__).parents[1])}
    code = "import samebits; samebits.status()"

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
