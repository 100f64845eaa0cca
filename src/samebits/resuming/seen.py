"""What a run noted of its checkpoints and its batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from samebits.runfolder.notes import BatchFetched, Interrupted, Lacks, Loaded, Saved, read_notes

# What the user says with `--saved-at` counts alone.
TOLD = "--saved-at"


def is_of_training(note: Saved | Loaded) -> bool:
    """Whether a function was called that checkpoints are made with; data and figures go through others, too."""
    return note.what.startswith(("torch.", "safetensors."))


@dataclass(frozen=True)
class SavedIn:
    """Where in the training something was saved.

    Attributes:
        epoch: of the last batch before, counted from 0.
        is_end: the next batch is one of another epoch.
        is_within_step: losses of the next step were accumulated by then.
        is_mixed: another file was not saved then, such as the best one, and is older.
    """

    epoch: int = 0
    is_end: bool = False
    is_within_step: bool = False
    is_mixed: bool = False


@dataclass(frozen=True)
class Seen:
    """The notes of one run, of all ranks, in the order of time."""

    saves: tuple[Saved, ...] = ()
    loads: tuple[Loaded, ...] = ()
    fetched: tuple[BatchFetched, ...] = ()
    stops: tuple[Interrupted, ...] = ()

    def of_rank(self, rank: int) -> tuple[BatchFetched, ...]:
        return tuple(one for one in self.fetched if one.rank == rank)

    @property
    def steps_saved(self) -> list[int]:
        """Steps that were done when something was saved, after the first."""
        return sorted({one.steps for one in self.saves if one.steps > 0})

    @property
    def most_done(self) -> int:
        """Steps that were done when it was stopped, or saved last after it was asked to end."""
        return max([stop.step + 1 for stop in self.stops] + self.steps_saved, default=0)

    @property
    def last_save(self) -> int:
        """Steps that were done when it saved last; 0 where it did not."""
        return max(self.steps_saved, default=0)

    @property
    def torn(self) -> str:
        """The file of which half was left; empty where none was."""
        return next((stop.torn for stop in self.stops if stop.torn), "")

    def counts_at(self, step: int) -> Mapping[str, int]:
        """How much of the next step had come when `step` steps were done and it was saved."""
        saves = [one for one in self.saves if one.steps == step and one.rank == 0]
        return saves[-1].counts if saves else {}

    def saved_in(self) -> dict[int, SavedIn]:
        """Steps done at each save → where in the epochs of the first rank that was."""
        trained = {one.step: one for one in self.of_rank(0)}  # the last batch of each step
        found = {}
        for steps in self.steps_saved:
            before, after = trained.get(steps - 1), trained.get(steps)
            passes = {(one.loader, one.epoch) for one in (before, after) if one is not None}
            save = next(save for save in reversed(self.saves) if save.steps == steps)
            last = {one.path: one.steps for one in self.saves if 0 < one.steps <= steps}
            found[steps] = SavedIn(
                0 if before is None else before.epoch,
                len(passes) == 2,
                save.counts.get("loss", 0) > 0,
                len(set(last.values())) > 1,
            )
        return found


def read_seen(folder: Path) -> Seen:
    """What the processes of a run noted."""
    saves = list(read_notes(folder, Saved))
    told = [one for one in saves if one.what == TOLD]
    return Seen(
        tuple(told or [one for one in saves if is_of_training(one)] or saves),
        tuple(read_notes(folder, Loaded)),
        tuple(_of_whole_trainings(list(read_notes(folder, BatchFetched)))),
        tuple(read_notes(folder, Interrupted)),
    )


def _of_whole_trainings(fetched: Sequence[BatchFetched]) -> Iterator[BatchFetched]:
    """The same, where a loader of a new dataset in every epoch counts as one.

    Of those that one line iterates, each that comes back after another was iterated is a loader of its own, such as
    training's and evaluation's in turns (0, 1, 0, 1); the others (0, 1, 2) take each other's place.
    """
    # Rank and kind → loader and epoch of every pass, in the order of time.
    passes: dict[tuple[int, int], dict[tuple[int, int], None]] = {}
    for one in fetched:
        passes.setdefault((one.rank, one.kind), {})[one.loader, one.epoch] = None
    renamed = {}
    for key, own in passes.items():
        order = [loader for loader, _ in own]
        stretches = Counter(loader for at, loader in enumerate(order) if at == 0 or order[at - 1] != loader)
        passing = [loader for loader in stretches if stretches[loader] == 1]
        done: Counter[int] = Counter()
        for loader, epoch in own:
            counted = passing[0] if loader in passing else loader
            renamed[key, loader, epoch] = counted, done[counted]
            done[counted] += 1
    for one in fetched:
        loader, epoch = renamed[(one.rank, one.kind), one.loader, one.epoch]
        yield replace(one, loader=loader, epoch=epoch)


def what_was_loaded(killed: Seen, resumed: Seen) -> tuple[Saved | None, Loaded | None]:
    """The checkpoint that the resumed run starts from: what the killed run saved, and where it was loaded.

    A file is known by its time, so that it may have been moved or copied meanwhile, else by its path.
    """
    found = _loaded_before(killed, resumed)
    # Of several files the newest one says how far the training was.
    others = [load for load in resumed.loads if load.steps == 0 and is_of_training(load)]
    return max(found, key=lambda pair: pair[0].steps) if found else (None, others[-1] if others else None)


def loads_of(killed: Seen, resumed: Seen) -> tuple[tuple[str, int], ...]:
    """The files that it loaded before its first step, and how many steps were done when each was saved."""
    return tuple(dict.fromkeys((Path(load.path).name, save.steps) for save, load in _loaded_before(killed, resumed)))


def _loaded_before(killed: Seen, resumed: Seen) -> list[tuple[Saved, Loaded]]:
    """What it loaded before its first step, and the save that made it."""
    before = (load for load in resumed.loads if load.steps == 0)
    return [(save, load) for load in before if (save := _saved_as(killed.saves, load)) is not None]


def _saved_as(saves: Sequence[Saved], load: Loaded) -> Saved | None:
    """The last save of that file: by its path and time, else by its time, else by its path."""

    def alike(save: Saved) -> tuple[bool, bool]:
        return load.time != "" and save.time == load.time, load.path != "" and save.path == load.path

    return max((save for save in reversed(saves) if save.steps > 0 and any(alike(save))), key=alike, default=None)


def what_it_lacks(folder: Path) -> list[Lacks]:
    """What a resumed run held otherwise when it was compared last, rank by rank."""
    notes = list(read_notes(folder, Lacks))
    last = {note.rank: note.time for note in notes}
    return [note for note in notes if note.time == last[note.rank]]
