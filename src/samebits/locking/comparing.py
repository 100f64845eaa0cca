"""A run held against what is locked: does it agree, and if not, since when and in what? Nothing is run here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from samebits.base.errors import DigestError, SamebitsError
from samebits.locking.digests import TRACE_DIGITS, Digested
from samebits.locking.entries import END, Locked, Row
from samebits.locking.verdict import LockDivergence
from samebits.runfolder.steps import COMPARED, Recording


@dataclass(frozen=True)
class HeldAgainst:
    """A run held against what is locked.

    Attributes:
        divergence: where it parts; None where it does not, as far as it goes.
        reaches_end: it goes as far as what is locked.
        agreed: steps that agree.
    """

    divergence: LockDivergence | None
    reaches_end: bool
    agreed: int


def held_against(locked: Locked, recordings: Sequence[Recording], is_whole: bool, most_steps: int = 0) -> HeldAgainst:
    """Where a run parts from what is locked.

    Args:
        locked: what is expected.
        recordings: of the run, at least one.
        is_whole: it ended by itself, or where it was to end; otherwise what it lacks says nothing.
        most_steps: so many were locked, and no end; 0 where all were.

    Raises:
        DigestError: tensors were digested by another definition.
        RecordingError: a recording is damaged.
    """
    own = Digested(recordings, most_steps)
    if own.definition != locked.digest:
        raise DigestError(
            f"the lock and the run cannot be compared: their digests are {locked.digest!r} and {own.definition!r}",
            "run it in an environment that has xxhash, as the locked one had, or lock it again",
        )
    if own.root == locked.root and own.steps == locked.steps:
        return HeldAgainst(None, True, own.steps)
    common = min(own.steps, locked.steps)
    agreed, first = _first_that_differs(locked, own, common)
    if first is not None:
        found = _at(locked, own, first, agreed, common)
        return HeldAgainst(found, True, 0 if agreed is None else agreed + 1)
    if not is_whole and not own.is_limited:
        return HeldAgainst(None, False, common)
    last = common - 1 if common else None
    if own.steps != locked.steps:
        place = LockDivergence(
            "length", common, last, lengths=(locked.steps, own.steps), recordings=_count(locked, own)
        )
        return HeldAgainst(place, True, common)
    return HeldAgainst(_at_end(locked, own, last), True, common)


def held_if_comparable(
    locked: Locked, recordings: Sequence[Recording], is_whole: bool, most_steps: int
) -> HeldAgainst | None:
    """The same; None where the two cannot be compared."""
    try:
        return held_against(locked, recordings, is_whole, most_steps)
    except SamebitsError:
        return None


def _first_that_differs(locked: Locked, own: Digested, common: int) -> tuple[int | None, int | None]:
    """The last step of those with a root that agrees, and the first that does not; None where there is none.

    Roots are chained: once they differ they never agree again.
    """
    agreed = None
    for step, root in sorted(_roots(locked).items()):
        if step >= common:
            break
        if not own.root_at(step).startswith(root):
            return agreed, step
        agreed = step
    return agreed, None


def _roots(locked: Locked) -> dict[int, str]:
    """Step → as much of its root as is locked."""
    words = (locked.trace[at : at + TRACE_DIGITS] for at in range(0, len(locked.trace), TRACE_DIGITS))
    traced = {number * locked.stride: word for number, word in enumerate(words)}
    return traced | {int(row.at): row.root for row in locked.rows if row.at != END}


def _at(locked: Locked, own: Digested, first: int, agreed: int | None, common: int) -> LockDivergence:
    row = next((row for row in locked.rows if row.at != END and first <= int(row.at) < common), None)
    count = _count(locked, own)
    if row is None:  # the run ends before the next step of which streams are locked
        return LockDivergence("stream", first, agreed, recordings=count)
    own.assert_sound(row)
    here = own.row(int(row.at))
    return LockDivergence("stream", first, agreed, _streams(row, here), row.at, _losses(row, here), recordings=count)


def _at_end(locked: Locked, own: Digested, last: int | None) -> LockDivergence:
    """The last step agrees, and so do all before it: it is what came after them."""
    row, here = next((row for row in locked.rows if row.at == END), None), own.end()
    if row is None or here is None:
        return LockDivergence("stream", own.steps, last, seen=END, recordings=_count(locked, own))
    own.assert_sound(row)
    return LockDivergence("stream", own.steps, last, _streams(row, here), END, recordings=_count(locked, own))


def _streams(row: Row, here: Row) -> tuple[str, ...]:
    return tuple(stream for stream in COMPARED if row.streams.get(stream) != here.streams.get(stream))


def _losses(row: Row, here: Row) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    return (row.losses, here.losses) if row.losses != here.losses else None


def _count(locked: Locked, own: Digested) -> tuple[int, int] | None:
    """How many trainings of a run with several have another last root."""
    if len(locked.recordings) < 2:
        return None
    missing = Counter(locked.recordings) - Counter(own.lines())
    return missing.total(), len(locked.recordings)


def differing_files(
    locked: Mapping[str, str], here: Mapping[str, str | None], what: Literal["artifact", "data"]
) -> tuple[LockDivergence, ...]:
    """Of files whose digests are locked, those that have another one now, or are gone.

    Args:
        locked: path → digest.
        here: path → digest, None for what is not there; paths that are left out were not looked at.
        what: which sort of files they are.
    """
    gone = "the run did not write it" if what == "artifact" else "it is not there"
    odd = ((path, now) for path, now in here.items() if locked.get(path) != now)
    return tuple(LockDivergence(what, path=path, why=gone if now is None else "") for path, now in odd)
