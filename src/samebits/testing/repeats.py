"""Repeated calls of one function: each is recorded, and compared with the first."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from samebits.agent.session import record
from samebits.base.errors import RecordingError
from samebits.base.records import from_data, to_data
from samebits.comparison.runs import compare_recordings
from samebits.report.diffs import comparison_text
from samebits.runfolder.folder import open_run
from samebits.runfolder.notes import Failed, read_notes
from samebits.runfolder.steps import Recording
from samebits.testing.seeding import UnseededWitnesses

_RUN, _LEFT = "run", "left.json"


@dataclass(frozen=True)
class RecordedCall:
    """The record of one call.

    Attributes:
        result, reach: digests, by path, of what was returned, and of the tensors that the call could have written to.
        threads: names of the threads that it started.
        entered: the factors without a seed that were seen to enter, in words.
        recordings: recordings of its operations and steps, if there were any.
        named: name → digest of the values that it named as a test.
    """

    result: Mapping[str, int]
    reach: Mapping[str, int]
    threads: tuple[str, ...] = ()
    entered: tuple[str, ...] = ()
    recordings: tuple[Recording, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_anything(self) -> bool:
        return bool(self.recordings or self.result or self.named)


def recorded_call(
    folder: Path,
    function: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    entering: UnseededWitnesses | None = None,
) -> RecordedCall:
    """Call a function, and record what it did; what it raises is raised.

    The folder is made, for the recording; `entering` witnesses the factors that no seed controls.
    """
    from samebits.agent.result_digests import digests_of_reachable, digests_of_result

    with _threads_noted() as threads, record(folder / _RUN, level="op"):
        result = function(*args, **kwargs)
    entered = () if entering is None else tuple(entering.lines())
    call = RecordedCall(
        digests_of_result(result), digests_of_reachable(function, args, kwargs), tuple(threads), entered
    )
    (folder / _LEFT).write_text(json.dumps(to_data(call)), encoding="utf-8")
    return read_call(folder)


def read_call(folder: Path) -> RecordedCall:
    """Read what `recorded_call` wrote, in whichever process; RecordingError if recording ended before the call did."""
    for note in read_notes(folder / _RUN, Failed):
        raise RecordingError(f"recording ended before the call did: {note.message}", note.hint)
    call = from_data(RecordedCall, json.loads((folder / _LEFT).read_text(encoding="utf-8")))
    return replace(call, recordings=tuple(open_run(folder / _RUN).recordings()))


def is_complete(folder: Path) -> bool:
    """Whether a call was recorded in this folder, and returned."""
    return (folder / _LEFT).exists()


def difference(a: RecordedCall, b: RecordedCall) -> str:
    """Return the first difference between two calls, in words; empty if there is none."""
    from samebits.agent.result_digests import first_difference

    comparison = compare_recordings(a.recordings, b.recordings)
    if not comparison.same:
        return comparison_text(comparison)
    for x, y, words in (
        (a.result, b.result, "{}"),
        (a.reach, b.reach, "{}, as it is after the call"),
        (a.named, b.named, "{!r}, as the test named it"),
    ):
        path = first_difference(x, y)
        if path is not None:
            return f"different bits: {words.format(path)}"
    return ""


def unseen_in(name: str, calls: Sequence[RecordedCall]) -> str:
    """Return a sentence about what these calls did that cannot be compared; empty if there was nothing."""
    threads = dict.fromkeys(thread for call in calls for thread in call.threads)
    return f"{name} started threads, whose operations cannot be seen: {', '.join(threads)}" if threads else ""


def nothing_in(name: str) -> str:
    """Return the sentence that nothing can be compared."""
    return f"{name} did nothing that can be compared: no torch operation was seen, and nothing was returned"


@contextmanager
def _threads_noted() -> Iterator[list[str]]:
    """The names of threads that are started inside, except those that queues of multiprocessing need."""
    names: list[str] = []
    original = threading.Thread.start

    def start(self: Any) -> None:
        if not str(getattr(getattr(self, "_target", None), "__module__", "")).startswith(("multiprocessing", "torch")):
            names.append(self.name)
        original(self)

    threading.Thread.start = start  # type: ignore[method-assign]
    try:
        yield names
    finally:
        threading.Thread.start = original  # type: ignore[method-assign]
