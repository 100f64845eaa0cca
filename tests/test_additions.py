"""What is added is one file: a command, a form of answers, and a factor, each tried here in a temporary place.

    a command   1 file     `cli/commands/NAME.py`: its name, its help and its options
    a form      1 file     `report/forms/NAME.py`: a function for each kind of answer that it has
    a factor    1 file     `factors/NAME.py`, and one line in the catalogue, which is the order of factors
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import samebits
from samebits.cli import commands, registry
from samebits.cli.main import main
from samebits.factors import catalog, pinning
from samebits.report import forms
from tests.report.test_reports import same

COMMAND = '''"""`samebits greet`: greet the user by name."""

import click


@click.command()
@click.argument("name")
def command(name: str) -> None:
    """Say hello."""
    click.echo(f"hello {name}")
'''

FORM = '''"""`--format count`: how many factors are held still."""

from samebits.factors.pinning import Status

IS_DATA = True


def factors(status: Status) -> str:
    return str(sum(factor.is_pinned for factor in status))
'''

FACTOR = '''"""The locale."""

import os
from collections.abc import Mapping

from samebits.factors.base import Factor, Observation
from samebits.factors.context import FactorContext, Setting


class Locale(Factor):
    """How numbers and dates are written."""

    name = "locale"
    scope = "environment"
    summary = "numbers and dates are written in the language of the machine"
    too_late = "the interpreter started"
    explanation = "the language of the machine"

    def environment(self, setting: Setting, seed: int, environ: Mapping[str, str]) -> dict[str, str]:
        return {"LC_ALL": "C"} if setting.mode == "pinned" else {}

    def observe(self, context: FactorContext | None) -> Observation:
        value = os.environ.get("LC_ALL", "")
        return Observation(value or "the machine's", value == "C", can_pin=False, reason="Python has started")
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place whose files belong to the packages of commands, forms and factors, as if they lay in them."""
    for package in (commands, forms, samebits.factors):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    registry.helps.cache_clear()
    yield tmp_path
    registry.helps.cache_clear()


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_a_command_is_one_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is listed with its help, and runs; without its file it is unknown."""
    (folder / "greet.py").write_text(COMMAND)

    listed = printed(capsys, "--help")

    assert "greet    Greet the user by name." in listed
    assert printed(capsys, "greet", "you") == "hello you\n"
    assert [path.name for path in folder.iterdir() if path.is_file()] == ["greet.py"]


def test_a_form_is_one_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It can be chosen where it has an answer; elsewhere that is said, and no other form is touched."""
    (folder / "count.py").write_text(FORM)
    form = forms.find_form("count", "factors")

    assert forms.form_names() == ["text", "count", "json"]
    assert form.factors(pinning.status()) == str(sum(one.is_pinned for one in pinning.status()))
    with pytest.raises(samebits.SamebitsError, match="--format count has no form for the answers of `samebits check`"):
        forms.find_form("count", "check")
    assert json.loads(forms.find_form("json", "check").check(same()))["verdict"] == "same"


def test_a_factor_is_one_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its line in the catalogue it is found, observed, and pinned in the environment of a run."""
    (folder / "locale_of_the_machine.py").write_text(FACTOR)
    from samebits.factors.locale_of_the_machine import Locale  # type: ignore[import-not-found]

    with_it = (*catalog.CATALOG, Locale())
    for module in (catalog, pinning, __import__("samebits.runfolder.plan", fromlist=["plan"])):
        monkeypatch.setattr(module, "CATALOG", with_it)
    plan = __import__("samebits.runfolder.plan", fromlist=["plan"]).RunPlan(settings=pinning.settings_for(["locale"]))

    assert plan.environment({})["LC_ALL"] == "C"
    assert pinning.status()["locale"].observation.value in ("the machine's", "C", *pinning.status()["locale"].name)
