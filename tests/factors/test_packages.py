"""What a training imports behaves as without us under every treatment: pandas, scikit-learn, matplotlib, dates."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from samebits.factors.catalog import CATALOG
from samebits.factors.context import Mode, Setting
from samebits.launch.command import parse_command
from samebits.runfolder.notes import Failed, read_notes
from samebits.runfolder.spec import RunSpec
from tests.running import run_recorded

pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

COMMAND = [sys.executable, str(Path(__file__).with_name("packages.py"))]
PATIENCE_SECONDS = 300


def every(mode: Mode) -> dict[str, Setting]:
    """Every factor that there is, also those that are treated only when asked for."""
    return {factor.name: Setting(mode) for factor in CATALOG}


TREATMENTS: dict[str, Mapping[str, Setting]] = {
    "clock pinned": {"clock": Setting("pinned")},
    "clock varied": {"clock": Setting("varied")},
    "clock witnessed": {},
    "all pinned": every("pinned"),
    "all varied": every("varied"),
}


@pytest.fixture(scope="module")
def plainly() -> tuple[int, bytes, bytes]:
    """The script's exit status and what it prints, without samebits."""
    done = subprocess.run(COMMAND, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "treatment", [one if one == "all varied" else pytest.param(one, marks=pytest.mark.slow) for one in TREATMENTS]
)
def test_a_script_prints_what_it_prints_without_us(
    treatment: str, plainly: tuple[int, bytes, bytes], tmp_path: Path
) -> None:
    """Same bytes, same exit status, and no word of ours."""
    plan = RunSpec(treatment, TREATMENTS[treatment], witness=True)
    outcome = run_recorded(parse_command(COMMAND), plan, tmp_path / "run", PATIENCE_SECONDS)

    printed = outcome.folder.stdout.read_bytes(), outcome.folder.stderr.read_bytes()
    assert (outcome.exit_code, *printed) == plainly
    assert plainly[0] == 3
    assert list(read_notes(tmp_path / "run", Failed)) == []
