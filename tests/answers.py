"""Commands as users type them, and their answers as data."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.schemas import assert_valid

STATUS = {"same": 0, "different": 1}


def samebits(
    folder: Path, *words: str, timeout: float = 900, **variables: str | None
) -> "subprocess.CompletedProcess[str]":
    """What a command says in a folder.

    Args:
        folder: where it is typed.
        words: that follow `samebits`.
        timeout: in seconds.
        variables: of its environment besides this one's; None takes one away. One thread each, since tests run side by
            side, and no hash seed, which would be the user's own.
    """
    own = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": None, **variables}
    return subprocess.run(
        [sys.executable, "-m", "samebits", *words],
        cwd=folder,
        env={name: value for name, value in own.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def answer_of(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """What a command has printed as data, held against its schema."""
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert_valid(found)
    return found


def answered(folder: Path, command: str, *words: str, **variables: str | None) -> dict[str, Any]:
    """The answer of a command as data; the status fits its verdict."""
    done = samebits(folder, command, "--format", "json", *words, **variables)
    found = answer_of(done)
    assert done.returncode == STATUS.get(found["verdict"], 2), done.stderr
    return found
