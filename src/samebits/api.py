"""What a check does, from Python: two recorded runs compared, and a function that has to repeat."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from samebits.agent.session import path_given, record
from samebits.base.errors import DivergenceError, RecordingError, UnseenWarning, UsageError
from samebits.comparison.runs import RunComparison, compare_recordings, compare_runs
from samebits.report.origins import describe_op
from samebits.report.places import compared_streams, where, which
from samebits.runfolder.folder import open_run
from samebits.runfolder.notes import read_notes
from samebits.runfolder.steps import Recording


class Comparison(RunComparison):
    """What two runs have in common, and as a text which is the first place at which they differ."""

    def __str__(self) -> str:
        if self.same:
            return f"same bits: {compared_streams(self)}"
        words = [] if self.op is None else [describe_op(self.op)]
        if self.divergence is not None:
            words += [where(self.divergence), which(self.divergence)]
        return f"different bits: {'; '.join(filter(None, words))}"


def compare(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Comparison:
    """The first place at which two recorded runs differ.

    Args:
        a: a run folder.
        b: another.

    Raises:
        RecordingError: one of them is no run folder, or holds no recording.
        UsageError: one of them is no path.
    """
    return Comparison(**vars(compare_runs(open_run(path_given("a", a)), open_run(path_given("b", b)))))


def assert_repeats(function: Callable[..., Any], *args: Any, runs: int = 2, **kwargs: Any) -> None:
    """Call a function several times and raise if it did not do the same with the same bits each time.

    Compared are torch's operations, what the function returned, and what tensors, arrays and modules hold afterwards
    that are among its arguments, its own variables from outside, or the attributes of its object. Seed inside the
    function: what it draws and what it starts from are part of what has to repeat.

        def test_training_repeats():
            samebits.assert_repeats(train, steps=3)

    Args:
        function: what to call.
        *args: passed on.
        runs: how many calls.
        **kwargs: passed on.

    Raises:
        DivergenceError: an AssertionError that names the first operation or result at which two calls differ.
        UsageError: fewer than two runs, or nothing in any that could be compared.
        RecordingError: recording ended before the call did.

    Warns:
        UnseenWarning: other threads were started: their operations are not seen, only what they leave behind.
    """
    if not callable(function):
        raise UsageError(f"function must be something to call, got {function!r}", "leave the parentheses away")
    if runs < 2:
        raise UsageError(f"runs must be at least 2, got {runs}")
    name = getattr(function, "__name__", repr(function))
    with TemporaryDirectory(prefix="samebits-") as home:
        calls = [_called(Path(home, str(number)), function, args, kwargs) for number in range(runs)]
        threads = tuple(dict.fromkeys(thread for call in calls for thread in call.threads))
        unseen = f"{name} started threads, whose operations cannot be seen: {', '.join(threads)}" if threads else ""
        for number, call in enumerate(calls[1:], 2):
            words = _difference(calls[0], call)
            if words:
                raise DivergenceError(f"calls 1 and {number} diverge: {words}", "samebits check says why")
        if not any(call.has_anything for call in calls):
            why = f"{name} did nothing that can be compared: no torch operation was seen, and nothing was returned"
            raise UsageError(why, unseen)
    if unseen:
        warnings.warn(unseen, UnseenWarning, stacklevel=2)


@dataclass(frozen=True)
class _Call:
    """What is known of one call.

    Attributes:
        recordings: its operations and steps; empty if there were none.
        result, reach: digests of what was returned, and of what it could have written to.
        threads: names of those that it started.
    """

    recordings: list[Recording]
    result: dict[str, int]
    reach: dict[str, int]
    threads: tuple[str, ...]

    @property
    def has_anything(self) -> bool:
        return bool(self.recordings or self.result)


def _called(path: Path, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
    from samebits.agent.outcome import digests_of_reach, digests_of_result

    with _threads_noted() as threads, record(path, level="op"):
        result = function(*args, **kwargs)
    for note in read_notes(path, "error"):
        raise RecordingError(f"recording ended before the call did: {note['message']}", note["hint"])
    recordings = open_run(path).recordings()
    return _Call(recordings, digests_of_result(result), digests_of_reach(function, args, kwargs), tuple(threads))


def _difference(a: _Call, b: _Call) -> str:
    """The first difference between two calls, in words; empty if there is none."""
    from samebits.agent.outcome import first_difference

    found = Comparison(**vars(compare_recordings(a.recordings, b.recordings)))
    if not found.same:
        return str(found)
    result = first_difference(a.result, b.result)
    if result is not None:
        return f"different bits: {result}"
    written = first_difference(a.reach, b.reach)
    return "" if written is None else f"different bits: {written}, as it is after the call"


@contextmanager
def _threads_noted() -> Iterator[list[str]]:
    """The names of threads that are started inside, but for those that queues of multiprocessing need."""
    found: list[str] = []
    original = threading.Thread.start

    def start(self: Any) -> None:
        if not str(getattr(getattr(self, "_target", None), "__module__", "")).startswith(("multiprocessing", "torch")):
            found.append(self.name)
        original(self)

    threading.Thread.start = start  # type: ignore[method-assign]
    try:
        yield found
    finally:
        threading.Thread.start = original  # type: ignore[method-assign]
