"""What a check does, from Python: two recorded runs compared, and a function that has to repeat."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from samebits.comparison.runs import RunComparison, compare_runs
from samebits.errors import DivergenceError, RecordingError, UsageError
from samebits.recording.folder import open_run
from samebits.recording.session import record
from samebits.report.origins import op_told
from samebits.report.places import compared_streams, where, which


class Comparison(RunComparison):
    """What two runs have in common, and as a text which is the first place at which they differ."""

    def __str__(self) -> str:
        if self.same:
            return f"same bits: {compared_streams(self)}"
        told = [] if self.op is None else [op_told(self.op)]
        if self.divergence is not None:
            told += [where(self.divergence), which(self.divergence)]
        return f"different bits: {'; '.join(filter(None, told))}"


def compare(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Comparison:
    """The first place at which two recorded runs differ.

    Args:
        a: a run folder.
        b: another.

    Raises:
        RecordingError: one of them is no run folder, or holds no recording.
    """
    return Comparison(**vars(compare_runs(open_run(Path(a)), open_run(Path(b)))))


def assert_repeats(function: Callable[..., Any], *args: Any, runs: int = 2, **kwargs: Any) -> None:
    """Call a function several times and raise if torch did not do the same with the same bits each time.

    Seed inside the function: what it draws and what it starts from are part of what has to repeat.

        def test_training_repeats():
            samebits.assert_repeats(train, steps=3)

    Args:
        function: what to call; its results are not looked at, its operations are.
        *args: passed on.
        runs: how many calls.
        **kwargs: passed on.

    Raises:
        DivergenceError: an AssertionError that names the first operation at which two calls differ.
        UsageError: fewer than two runs, or no operation was seen in any.
    """
    if runs < 2:
        raise UsageError(f"runs must be at least 2, got {runs}")
    with TemporaryDirectory(prefix="samebits-") as home:
        paths = [Path(home, str(number)) for number in range(runs)]
        for path in paths:
            with record(path, level="op"):
                function(*args, **kwargs)
        for number, path in enumerate(paths[1:], 2):
            try:
                found = compare(paths[0], path)
            except RecordingError as error:
                name = getattr(function, "__name__", repr(function))
                raise UsageError(f"{name} did nothing that can be recorded: no torch operation was seen") from error
            if not found.same:
                raise DivergenceError(f"calls 1 and {number} part: {found}", "samebits check tells why")
