"""The command line in this process: for what ends before anything is run."""

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from samebits.cli.main import main
from tests.launch.conftest import Seen


def typed(*words: str, cwd: Path) -> Seen:
    """What a shell in that folder would see of `samebits` with these words."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["samebits", *words])
        with pytest.raises(SystemExit) as ended:
            main()
    return Seen(int(ended.value.code or 0), out.getvalue().encode(), err.getvalue().encode())
