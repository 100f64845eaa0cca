"""What is added is one file: a command and a factor, each tried in a copy of the package.

a command   1 file                        its name, its help and its options
a factor    1 file, and the catalogue     which is the order of factors: an import and an entry
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import samebits

OWN = Path(samebits.__file__).parent

COMMAND = '''"""`samebits greet`: greet the user by name."""

import click


@click.command()
@click.argument("name")
def command(name: str) -> None:
    """Say hello."""
    click.echo(f"hello {name}")
'''

FACTOR = '''"""The language of the machine."""

import os
from collections.abc import Mapping

from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext, Setting


class Language(Factor):
    """How numbers and dates are written."""

    name = "language"
    scope = "environment"
    summary = "numbers and dates are written in the language of the machine"
    explanation = "the language of the machine"
    fix = "set LC_ALL=C before Python starts"

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        return {"LC_ALL": "C"} if setting.mode == "pinned" else {}

    def observe(self, context: FactorContext | None = None) -> Observation:
        value = os.environ.get("LC_ALL", "")
        return Observation(value, value == "C", can_pin=False, reason="Python has started")
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, to add files to."""
    return shutil.copytree(OWN, tmp_path / "src" / "samebits", ignore=shutil.ignore_patterns("__pycache__"))


def touched(package: Path) -> list[str]:
    """The files of the copy that the package has not, or has otherwise."""
    files = {path.relative_to(package): path for path in package.rglob("*") if path.suffix in (".py", ".html")}
    own = {name: OWN / name for name in files}
    return sorted(str(n) for n, path in files.items() if not own[n].exists() or path.read_text() != own[n].read_text())


def run(package: Path, *words: str, status: int = 0, **environ: str) -> str:
    """What Python prints that imports the copy."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1", **environ}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=package.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout


def test_a_command_is_one_file(package: Path) -> None:
    """It is listed with its help between the others, and runs."""
    (package / "cli" / "commands" / "greet.py").write_text(COMMAND)

    listed = run(package, "-m", "samebits", "--help")

    assert "  greet    Greet the user by name.\n  lint     " in listed
    assert run(package, "-m", "samebits", "greet", "you") == "hello you\n"
    assert touched(package) == ["cli/commands/greet.py"]


def test_a_factor_is_one_file(package: Path) -> None:
    """With its entry in the catalogue it is observed, and pinned in the environment of a run."""
    (package / "factors" / "language.py").write_text(FACTOR)
    catalog = package / "factors" / "catalog.py"
    entry = catalog.read_text().replace("    Clock(),\n", "    Clock(),\n    Language(),\n")
    start = "from samebits.factors.memory"
    catalog.write_text(entry.replace(start, f"from samebits.factors.language import Language\n{start}"))
    look = (
        "import samebits; from samebits.factors.pinning import settings_for; "
        "from samebits.runfolder.spec import RunSpec; "
        "plan = RunSpec(settings=settings_for(['language'])); "
        "print(samebits.status()['language'].is_pinned, plan.environment({}))"
    )

    assert run(package, "-c", look, LC_ALL="C") == "True {'LC_ALL': 'C'}\n"
    assert run(package, "-c", look, LC_ALL="C.UTF-8") == "False {'LC_ALL': 'C'}\n"
    assert touched(package) == ["factors/catalog.py", "factors/language.py"]
