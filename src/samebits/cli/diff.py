"""`samebits diff`: two recorded runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from samebits.cli.options import answer, format_option
from samebits.comparison.locate import Divergence, first_divergence
from samebits.comparison.streams import cuts_of, missing, streams_of
from samebits.comparison.values import Distance, distance
from samebits.errors import RecordingError
from samebits.recording.folder import RunFolder, open_run
from samebits.recording.journal import read_notes
from samebits.recording.store import Recording
from samebits.recording.values import read_kept
from samebits.report.json import diff_json, dumped
from samebits.report.text import diff_text


@click.command(short_help="Compare two recorded runs.")
@format_option
@click.argument("a", type=click.Path(path_type=Path), metavar="RUN")
@click.argument("b", type=click.Path(path_type=Path), metavar="RUN")
def command(form: str, a: Path, b: Path) -> None:
    """Compare two recorded runs and name the first place at which they differ.

    \b
    samebits run --out one train.py
    samebits run --out two train.py
    samebits diff one two

    Exit status: 0 same bits, 1 different bits, 2 when a run cannot be read.
    """  # noqa: D301 - click wants the character itself
    left, right = open_run(a), open_run(b)
    first, second = _recordings(left), _recordings(right)
    until = _stopped_at(left, right)
    place = first_divergence(first, second, until)
    apart = None if place is None else _distance(left, right, place)
    notes = [note for folder, found in ((left, first), (right, second)) for note in _notes(folder, found)]
    if place is not None and apart is None and place.stream not in ("length", "outcome"):
        notes.append(f"to measure by how much, run both again with --keep-values {place.step}")
    streams = streams_of((first, second))
    unseen = _not_seen(left, right, streams)
    if form == "json":
        answer(dumped(diff_json(str(left.path), str(right.path), place, apart, notes, streams, unseen)), is_data=True)
    else:
        steps = max(recording.steps for recording in first)
        answer(diff_text(str(left.path), str(right.path), steps, place, apart, notes, streams, unseen))
    sys.exit(0 if place is None else 1)


def _recordings(folder: RunFolder) -> list[Recording]:
    folder.manifest()
    found = folder.recordings()
    if not found:
        raise RecordingError(f"{folder.path} holds no recording", "the run took no step, or was ended before its first")
    return found


def _stopped_at(a: RunFolder, b: RunFolder) -> int | None:
    stops = [folder.manifest().get("plan", {}).get("stop_after") for folder in (a, b)]
    return min((stop for stop in stops if stop is not None), default=None)


def _distance(a: RunFolder, b: RunFolder, place: Divergence) -> Distance | None:
    left = read_kept(a.path, place.rank, place.step, place.stream).get(place.name)
    right = read_kept(b.path, place.rank, place.step, place.stream).get(place.name)
    return None if left is None or right is None else distance(left, right)


def _not_seen(a: RunFolder, b: RunFolder, streams: Sequence[str]) -> list[str]:
    noted = (note["what"] for folder in (a, b) for note in read_notes(folder.path, "unseen"))
    return list(dict.fromkeys([*missing(streams, cuts_of((a.path, b.path))), *noted]))


def _notes(folder: RunFolder, recordings: list[Recording]) -> list[str]:
    if folder.manifest().get("status") == "stopped":
        return []
    return [
        f"{recording.path} is incomplete: its process did not end by itself; {recording.steps} steps were read"
        for recording in recordings
        if not recording.complete
    ]
