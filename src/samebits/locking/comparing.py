"""Compares a run with what is locked: whether it agrees, and if not, since when, in what, and where. Runs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from samebits.base.errors import DigestError
from samebits.locking.digests import TRACE_DIGITS, RunDigests
from samebits.locking.entries import END, Locked, Row
from samebits.locking.verdict import EnvironmentDifference, LockDivergence
from samebits.runfolder.environment import REPORTED_ONLY, Environment
from samebits.runfolder.steps import COMPARED, Recording


@dataclass(frozen=True)
class LockComparison:
    """The result of comparing a run with what is locked.

    Attributes:
        divergence: where the run diverges; None where it agrees as far as it goes.
        reaches_end: the run goes as far as what is locked.
        agreed: how many steps agree.
    """

    divergence: LockDivergence | None
    reaches_end: bool
    agreed: int


def compare_with_lock(
    locked: Locked, recordings: Sequence[Recording], is_whole: bool, most_steps: int = 0
) -> LockComparison:
    """Find where a run diverges from what is locked.

    Args:
        locked: the expected digests.
        recordings: the recordings of the run, at least one.
        is_whole: the run ended by itself, or at the step set for it; if not, the steps that it lacks say nothing.
        most_steps: how many first steps were locked, without the end; 0 where all were.

    Raises:
        DigestError: the lock and the run use different definitions of the digest.
        RecordingError: a recording is damaged.
    """
    own = RunDigests(recordings, most_steps)
    if own.definition != locked.digest:
        raise DigestError(
            f"the lock and the run cannot be compared: their digests are {locked.digest!r} and {own.definition!r}",
            "run it in an environment that has xxhash, as the locked one had, or lock it again",
        )
    if own.root == locked.root and own.steps == locked.steps:
        return LockComparison(None, True, own.steps)
    common = min(own.steps, locked.steps)
    agreed, first = _first_that_differs(locked, own, common)
    # How many trainings, if the run has several, have a last root that is not locked.
    missing = (Counter(locked.recordings) - Counter(own.lines())).total()
    count = (missing, len(locked.recordings)) if len(locked.recordings) > 1 else None
    if first is not None:
        # None where the run ends before the next step whose streams are locked.
        row = next((row for row in locked.rows if row.at != END and first <= int(row.at) < common), None)
        divergence = LockDivergence("stream", first, agreed, seen="" if row is None else row.at, recordings=count)
        return LockComparison(_with_streams(divergence, own, row), True, 0 if agreed is None else agreed + 1)
    if not is_whole and not own.is_limited:
        return LockComparison(None, False, common)
    last = common - 1 if common else None
    if own.steps != locked.steps:
        divergence = LockDivergence("length", common, last, lengths=(locked.steps, own.steps), recordings=count)
        return LockComparison(divergence, True, common)
    # The last step agrees, and so do all before it: what came after them differs.
    row = next((row for row in locked.rows if row.at == END), None)
    divergence = LockDivergence("stream", own.steps, last, seen=END, recordings=count)
    return LockComparison(_with_streams(divergence, own, row), True, common)


def _first_that_differs(locked: Locked, own: RunDigests, common: int) -> tuple[int | None, int | None]:
    """Return, of the steps with a locked root, the last that agrees and the first that does not: roots are chained."""
    words = (locked.trace[at : at + TRACE_DIGITS] for at in range(0, len(locked.trace), TRACE_DIGITS))
    # Step → the digits of its root that are locked.
    roots = {number * locked.stride: word for number, word in enumerate(words)}
    roots |= {int(row.at): row.root for row in locked.rows if row.at != END}
    agreed = None
    for step in sorted(roots):
        if step >= common:
            break
        if not own.root_at(step).startswith(roots[step]):
            return agreed, step
        agreed = step
    return agreed, None


def _with_streams(place: LockDivergence, own: RunDigests, row: Row | None) -> LockDivergence:
    """Return the place, with what differs from a row that is locked."""
    here = None if row is None else own.end() if row.at == END else own.row(int(row.at))
    if row is None or here is None:
        return place
    own.assert_sound(row)
    streams = tuple(stream for stream in COMPARED if row.streams.get(stream) != here.streams.get(stream))
    return replace(place, streams=streams, losses=(row.losses, here.losses) if row.losses != here.losses else None)


def differing_files(
    locked: Mapping[str, str], here: Mapping[str, str | None], what: Literal["artifact", "data"]
) -> tuple[LockDivergence, ...]:
    """Return the files in `here` whose digest is not the locked one; files that are not in `here` were not read."""
    gone = "the run did not write it" if what == "artifact" else "it is not there"
    differing = ((path, now) for path, now in here.items() if locked.get(path) != now)
    return tuple(LockDivergence(what, path=path, why=gone if now is None else "") for path, now in differing)


# ---- environments ----------------------------------------------------------------------------------------------------

# Field → its name, and how it changes bits; the likeliest to change bits first. A field with a factor has its name.
_EFFECTS: dict[str, tuple[str, str]] = {
    "device": ("device", "different hardware has different kernels"),
    "machine": ("machine", "another architecture has different kernels"),
    "torch": ("torch", "another version has different kernels"),
    "threads": ("cpu-threads", "sums split over a different number of threads are added in a different order"),
    "instructions": ("cpu-isa", "other vector instructions add in a different order"),
    "cuda": ("cuda", "another version has different kernels"),
    "cudnn": ("cudnn", "another version has different kernels"),
    "blas": ("blas", "another library multiplies in a different order"),
    "onednn": ("onednn", "another version has different kernels"),
    "torch_git": ("torch_git", "it was built from another commit"),
    "cpu": ("cpu", "libraries choose their kernels by the processor"),
    "numpy": ("numpy", "another version may draw and compute differently"),
    "numpy_blas": ("numpy_blas", "another library multiplies in a different order"),
    "driver": ("driver", "it compiles kernels anew"),
    "libc": ("libc", "its mathematical functions may round differently"),
    "python": ("python", "its own generators and mathematics may differ"),
    "cores": ("cores", "only the number of threads counts"),
    "system": ("system", "the kernel computes nothing"),
}


def differences(locked: Environment, here: Environment) -> tuple[EnvironmentDifference, ...]:
    """Return the fields that are known to differ, the likeliest to change bits first."""
    differing = set(locked.differing(here))
    return tuple(
        EnvironmentDifference(name, getattr(locked, own), getattr(here, own), own not in REPORTED_ONLY, why)
        for own, (name, why) in _EFFECTS.items()
        if own in differing
    )


def nearest(known: Mapping[str, Environment], here: Environment) -> str:
    """Return the name of the environment most like this one: it differs in the fewest fields that matter."""
    order = list(_EFFECTS)

    def distance(name: str) -> tuple[int, list[int], str]:
        ranks = sorted(order.index(own) for own in known[name].differing(here) if own not in REPORTED_ONLY)
        # Of equally many differences, prefer those that are less likely to matter.
        return len(ranks), [-rank for rank in ranks], name

    return min(known, key=distance)
