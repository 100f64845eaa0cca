"""What was recorded of runs: the streams that all of them have, and what one would expect beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

from samebits.base.versions import without_version
from samebits.runfolder.notes import Cut, Unseen, read_notes
from samebits.runfolder.steps import COMPARED, TRAINED, Recording, Stream


def streams_of(runs: Iterable[Sequence[Recording]]) -> tuple[str, ...]:
    """The compared streams that every run has, in their order; a run has what any of its processes recorded."""
    found = [{stream for recording in run for stream in recording.streams()} for run in runs]
    return tuple(stream for stream in COMPARED if found and all(stream in own for own in found))


def trained_in(runs: Iterable[Sequence[Recording]]) -> tuple[Stream, ...]:
    """The streams that say whether what was trained agrees; the others say what else happened.

    All of them count where nothing is trained, and where what was trained was not seen to its end.
    """
    runs = [*runs]
    needed = {"loss", "param", *(["end"] if all(one.complete for run in runs for one in run) else [])}
    return TRAINED if needed.issubset(streams_of(runs)) else COMPARED


def not_seen(
    folders: Iterable[Path],
    streams: Collection[str],
    steps: int,
    beside: Callable[[Unseen], Unseen | None] = lambda note: note,
) -> tuple[str, ...]:
    """What the recordings of runs do not hold, in words; `beside` takes out of a note what was compared otherwise."""
    folders = [*folders]
    notes = [[note for one in read_notes(folder, Unseen) if (note := beside(one))] for folder in folders]
    cuts = {note.cut for folder in folders for note in read_notes(folder, Cut)}
    written = [{without_version(file) for note in own for file in note.files} for own in notes]
    # Names that hold a time or a random part are others in every run: those of one run stand for all.
    most = max(written, key=len, default=set())
    others = ["files under other names, in other runs"] if any(not own <= most for own in written) else []
    found = [] if not streams else _lacking(streams, cuts, steps)
    found += [note.what for own in notes for note in own if not note.files]
    return tuple(dict.fromkeys([*found, *([Unseen.written([*sorted(most), *others]).what] if most else [])]))


def _lacking(streams: Collection[str], cuts: Collection[str], steps: int) -> list[str]:
    """What a training has and these recordings have not; steps may be cut otherwise before an optimizer is there."""
    found = []
    if "backward" in cuts and "optimizer" not in cuts and steps > 1:
        found.append("no step of an optimizer of torch's was seen: steps are cut at each backward")
    if "optimizer" in cuts or "backward" in cuts:
        kinds = {"loss": "loss", "grad": "gradient", "param": "parameter", "end": "final state of a model"}
        found += [f"no {noun} was recorded" for stream, noun in kinds.items() if stream not in streams]
    elif "forward" in cuts and not {"loss", "grad"} & {*streams}:
        found.append("no backward was seen, so there is no loss and no gradient: steps are cut at each call of a model")
    return found
