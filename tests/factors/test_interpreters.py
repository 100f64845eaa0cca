"""The factors of the standard library on every Python that is there: 3.10 to 3.14 keep os functions differently."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def interpreters() -> list[str]:
    """This Python, and the others that pyenv installed."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    others = [path for path in sorted(home.glob("3.*/bin/python")) if _version(path.parts[-3]) >= (3, 10)]
    return [sys.executable, *map(str, others)]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


@pytest.mark.parametrize("python", interpreters())
def test_the_standard_librarys_factors_work_on(python: str) -> None:
    """Pinned, varied, witnessed, undone; and `samebits.pin()` without torch."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONHASHSEED": "0"}
    # Without site-packages (-S): this Python has torch and NumPy, which the probe must not find.
    command = [python, "-S", str(ROOT / "tests" / "factors" / "stdlib_probe.py")]

    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stderr) == (0, ""), result.stderr
