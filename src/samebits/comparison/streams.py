"""Tells what runs recorded: the streams that all of them have, and what was expected and is missing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from samebits.base.run_numbers import without_run_number
from samebits.runfolder.notes import Cut, Unseen, read_notes
from samebits.runfolder.steps import COMPARED, TRAINED, Recording, Stream


def streams_of(runs: Iterable[Sequence[Recording]]) -> tuple[str, ...]:
    """Return the compared streams that every run has, in order; a run has what any of its processes recorded."""
    recorded = [{stream for recording in run for stream in recording.streams()} for run in runs]
    return tuple(stream for stream in COMPARED if recorded and all(stream in streams for streams in recorded))


def trained_in(runs: Iterable[Sequence[Recording]]) -> tuple[Stream, ...]:
    """Return the streams that tell whether what was trained agrees; the others tell what else happened.

    All streams count where nothing is trained, and where a training was not recorded to its end.
    """
    runs = [*runs]
    needed = {"loss", "param", *(["end"] if all(recording.complete for run in runs for recording in run) else [])}
    return TRAINED if needed.issubset(streams_of(runs)) else COMPARED


def not_seen(
    folders: Iterable[Path],
    streams: Collection[str],
    steps: int,
    beside: Callable[[Unseen], Unseen | None] = lambda note: note,
) -> tuple[str, ...]:
    """Return what recordings of runs lack, in words; `beside` removes from a note what was compared in another way."""
    folders = [*folders]
    notes = [[note for unseen in read_notes(folder, Unseen) if (note := beside(unseen))] for folder in folders]
    cuts = {note.cut for folder in folders for note in read_notes(folder, Cut)}
    written = [{without_run_number(file) for note in of_run for file in note.files} for of_run in notes]
    # Names that hold a time or a random part differ in every run: those of one run represent all.
    most = max(written, key=len, default=set())
    others = ["files under other names, in other runs"] if any(not names <= most for names in written) else []
    lines = [] if not streams else _lacking(streams, cuts, steps)
    lines += [note.what for of_run in notes for note in of_run if not note.files]
    return tuple(dict.fromkeys([*lines, *([Unseen.written([*sorted(most), *others]).what] if most else [])]))


def _lacking(streams: Collection[str], cuts: Collection[str], steps: int) -> list[str]:
    """Return what a training has and these recordings lack; before an optimizer exists, steps may be cut elsewhere."""
    lines = []
    if "backward" in cuts and "optimizer" not in cuts and steps > 1:
        lines.append("no step of an optimizer of torch's was seen: steps are cut at each backward")
    if "optimizer" in cuts or "backward" in cuts:
        kinds = {"loss": "loss", "grad": "gradient", "param": "parameter", "end": "final state of a model"}
        lines += [f"no {noun} was recorded" for stream, noun in kinds.items() if stream not in streams]
    elif "forward" in cuts and not {"loss", "grad"} & {*streams}:
        lines.append("no backward was seen, so there is no loss and no gradient: steps are cut at each call of a model")
    return lines
