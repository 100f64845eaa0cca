"""The few digests of a run that are locked: they show whether, and where, a later run diverges.

A recording has a root for every row, which digests everything up to that row. The roots decide. The digests of streams
at some steps say which stream differs; between these steps, 16 bits of the root every few steps say since when.

The recordings of ranks, threads and several trainings come in any order, so they are digested together as a set.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from hashlib import blake2b

from samebits.comparison.streams import streams_of
from samebits.locking.entries import END, Locked, Row
from samebits.runfolder.steps import COMPARED, Column, Recording

# Limits that keep an entry readable, and below 4 KB.
MOST_RECORDINGS, MOST_LOSSES, MOST_TRACED = 8, 2, 96
TRACE_DIGITS = 4


class RunDigests:
    """The recordings of one run, digested as for a lockfile: the first `most_steps`, or with 0 all, and the end."""

    def __init__(self, recordings: Sequence[Recording], most_steps: int = 0) -> None:
        self.recordings, self.most_steps = recordings, most_steps
        taken = max(recording.steps for recording in recordings)
        self.is_limited = 0 < most_steps <= taken
        self.steps = min(taken, most_steps or taken)
        # All recordings of one run have the same definition of the digest.
        self.definition = recordings[0].digest

    @property
    def root(self) -> str:
        """The digest of all rows that are locked."""
        return self.root_at(max(map(self._rows, self.recordings)))

    def root_at(self, row: int) -> str:
        """Return the digest of everything up to a row; a recording that ended earlier counts as a whole."""
        roots = [(one.rank, one.root(min(row, self._rows(one) - 1)) or b"") for one in self.recordings]
        return roots[0][1].hex() if len(roots) == 1 else _combined(roots, 8)

    def row(self, step: int) -> Row:
        """Return what is locked of one step."""
        here = [(one, one.columns(step)) for one in self.recordings if step < one.steps]
        return Row(str(step), self.root_at(step), self._streams(here), self._losses(here))

    def end(self) -> Row | None:
        """Return what is locked of the end, after the last step; None where nothing came after it."""
        here = [(one, one.columns(one.steps)) for one in self.recordings if self._rows(one) > one.steps]
        return Row(END, self.root, self._streams(here)) if here else None

    def lines(self) -> tuple[str, ...]:
        """Return rank, number of rows and last root of each recording, as text."""
        counted = [(one, self._rows(one)) for one in self.recordings]
        parts = sorted((one.rank, rows, (one.root(rows - 1) or b"").hex()) for one, rows in counted)
        return tuple(f"{rank} {rows} {root}" for rank, rows, root in parts)

    def assert_sound(self, row: Row) -> None:
        """Raise RecordingError where a row is damaged: only an intact recording can show that a run diverges."""
        for recording in self.recordings:
            step = recording.steps if row.at == END else int(row.at)
            if step < self._rows(recording):
                recording.assert_sound(step)

    def _rows(self, one: Recording) -> int:
        """Return how many rows of a recording count."""
        return min(len(one), self.most_steps) if 0 < self.most_steps <= one.steps else len(one)

    def _streams(self, here: Sequence[tuple[Recording, dict[str, Column]]]) -> dict[str, str]:
        combined: dict[str, str] = {}
        for stream in COMPARED:
            parts = [(one.rank, _digest_of(columns[stream])) for one, columns in here if stream in columns]
            if parts:
                combined[stream] = _combined(parts, 4)
        return combined

    def _losses(self, here: Sequence[tuple[Recording, dict[str, Column]]]) -> tuple[str, ...]:
        column = next((columns["number"] for _, columns in here if "number" in columns), None)
        bits = () if column is None else column.digests[:MOST_LOSSES]
        return tuple(float.hex(struct.unpack("<d", struct.pack("<Q", one))[0]) for one in bits)


def locked_of(recordings: Sequence[Recording], most_steps: int = 0) -> Locked:
    """Return what is locked of a finished run: its first `most_steps`, or with 0 all of it."""
    digested = RunDigests(recordings, most_steps)
    rows = (*map(digested.row, kept_steps(digested.steps)), digested.end())
    lines, stride = digested.lines(), max(1, -(-digested.steps // MOST_TRACED))
    return Locked(
        digested.definition,
        digested.steps,
        digested.root,
        tuple(row for row in rows if row is not None),
        streams_of([recordings]),
        lines if len(lines) <= MOST_RECORDINGS else (),
        stride,
        "".join(digested.root_at(step)[:TRACE_DIGITS] for step in range(0, digested.steps, stride)),
    )


def kept_steps(count: int) -> list[int]:
    """Return the steps whose streams are kept: 0, 1, 2, 4, 8 … and the last one.

    >>> kept_steps(11)
    [0, 1, 2, 4, 8, 10]
    """
    return sorted({0, *(2**power for power in range((count - 1).bit_length())), count - 1}) if count else []


def _digest_of(column: Column) -> bytes:
    names = blake2b("\0".join(column.names).encode(), digest_size=8).digest()
    return blake2b(names + array("Q", column.digests).tobytes(), digest_size=8).digest()


def _combined(parts: Sequence[tuple[int, bytes]], size: int) -> str:
    """Return the digest of a set of parts, in hex: their order does not matter."""
    return blake2b(b"".join(b"%d " % rank + digest for rank, digest in sorted(parts)), digest_size=size).hexdigest()
