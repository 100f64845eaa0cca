"""Running commands plainly, under `samebits run`, and as a check runs them; and looking at what came of it."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from samebits.factors.catalog import CATALOG
from samebits.factors.context import Setting
from samebits.launch.command import parse_command
from samebits.runfolder.notes import AnyNote, read_notes
from samebits.runfolder.spec import RunSpec
from tests.running import run_recorded

SAMEBITS = str(Path(sys.executable).with_name("samebits"))
PYTHON = sys.executable
# The interpreter behind the virtual environment, which looks at the user's own site-packages too; it has no torch.
BARE_PYTHON = str(Path(sys.base_prefix) / "bin" / "python3")
PATIENCE_SECONDS = 120

# What a script does to see one training step: enough for a recording of three steps.
TRAIN = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
"""


# The same for many steps, after which nobody waits.
SLOW = (
    TRAIN.replace("range(3)", "range(6000)").replace(
        "import torch\n",
        """import os, time, torch
from pathlib import Path
Path(f"pid.{os.getpid()}").touch()
""",
    )
    + "    time.sleep(0.01)\n"
)


@dataclass(frozen=True)
class Seen:
    """What a shell sees of a command."""

    status: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        return self.stdout.decode()

    @property
    def err(self) -> str:
        return self.stderr.decode()


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Lay out a user's folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")


def plain(
    words: Sequence[str], cwd: Path, *, stdin: bytes | int = subprocess.DEVNULL, env: Mapping[str, str] | None = None
) -> Seen:
    """The command as it is, without us; bytes given as `stdin` come through a pipe."""
    source: Any = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, timeout=PATIENCE_SECONDS, **source
    )
    return Seen(done.returncode, done.stdout, done.stderr)


def samebits(*words: str, cwd: Path, **more: Any) -> Seen:
    """The command line of samebits."""
    return plain([SAMEBITS, *words], cwd, **more)


def under_run(words: Sequence[str], cwd: Path, **more: Any) -> Seen:
    """The command under `samebits run`; the recording lies in `cwd/.samebits`."""
    return samebits("run", "--", *words, cwd=cwd, **more)


def under_check(words: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None) -> Seen:
    """The command as a check runs it at its busiest: everything varied, everything witnessed."""
    settings = {factor.name: Setting("varied") for factor in CATALOG if factor.varied_by_default}
    path = cwd / ".samebits" / "varied"
    with _standing_in(cwd, env or {}):
        spec = RunSpec("varied", settings, witness=True)
        outcome = run_recorded(parse_command(words), spec, path, PATIENCE_SECONDS, isolation="copy")
    return Seen(outcome.exit_code, outcome.folder.stdout.read_bytes(), outcome.folder.stderr.read_bytes())


@contextmanager
def _standing_in(cwd: Path, env: Mapping[str, str]) -> Iterator[None]:
    """This process in the user's folder and environment; both come back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        for name, value in env.items():
            patch.setenv(name, value)
        yield


def only_run(cwd: Path) -> Path:
    """The folder of the one run that was made under `cwd/.samebits`."""
    (folder,) = (path for path in (cwd / ".samebits").iterdir() if path.is_dir())
    return folder


def notes(cwd: Path, sort: type[AnyNote]) -> list[AnyNote]:
    """The notes of that run."""
    return list(read_notes(only_run(cwd), sort))
