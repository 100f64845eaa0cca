"""Processes that have the stand-in, under either name."""

import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.standin import environment

ROOT = Path(__file__).parents[2]
Ask = Callable[..., str]


@pytest.fixture(params=["cuda", pytest.param("standin", marks=pytest.mark.slow)])
def name(request: pytest.FixtureRequest) -> str:
    """Under CUDA's own name torch does more."""
    return str(request.param)


@pytest.fixture
def ask(name: str) -> Ask:
    """Runs a module of Python's with these words and faults, in the root of the project; what it prints."""

    def asked(words: str, *faults: str, **variables: str) -> str:
        settings = {key: variables.pop(key) for key in list(variables) if key.islower()}
        env = environment(name, *faults, **settings) | variables
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(words)], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return asked
