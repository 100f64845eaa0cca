"""The checkpoints and batches that a run noted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from samebits.runfolder.notes import BatchFetched, Interrupted, Lacks, Loaded, Saved, read_notes

# The source of the saves that the user declares with `--saved-at`: where there are some, no others count.
DECLARED_SAVE = "--saved-at"


def is_of_training(note: Saved | Loaded) -> bool:
    """Whether the called function is one that makes checkpoints; the others save data and figures, too."""
    return note.what.startswith(("torch.", "safetensors."))


@dataclass(frozen=True)
class SavePlace:
    """The place in the training at which something was saved.

    Attributes:
        epoch: the epoch of the last batch before the save, counted from 0.
        is_end: the next batch belongs to another epoch.
        is_within_step: losses of the next step had already been accumulated.
        is_mixed: another file, such as the best checkpoint, was not saved then and is older.
    """

    epoch: int = 0
    is_end: bool = False
    is_within_step: bool = False
    is_mixed: bool = False


@dataclass(frozen=True)
class TrainingNotes:
    """The notes of one run about saves, loads, batches and stops, of all ranks, in the order of time."""

    saves: tuple[Saved, ...] = ()
    loads: tuple[Loaded, ...] = ()
    fetched: tuple[BatchFetched, ...] = ()
    stops: tuple[Interrupted, ...] = ()

    def of_rank(self, rank: int) -> tuple[BatchFetched, ...]:
        return tuple(one for one in self.fetched if one.rank == rank)

    @property
    def steps_saved(self) -> list[int]:
        """The numbers of steps that were done when something was saved, without saves before the first step."""
        return sorted({one.steps for one in self.saves if one.steps > 0})

    @property
    def most_done(self) -> int:
        """The number of steps that were done when the run was stopped, or at a later save (it was asked to end)."""
        return max([stop.step + 1 for stop in self.stops] + self.steps_saved, default=0)

    @property
    def last_save(self) -> int:
        """The number of steps that were done at the last save; 0 where there was none."""
        return max(self.steps_saved, default=0)

    @property
    def torn(self) -> str:
        """The file that was left half written; empty where none was."""
        return next((stop.torn for stop in self.stops if stop.torn), "")

    def counts_at(self, step: int) -> Mapping[str, int]:
        """Return how many things of each stream of the next step had come at the last save after `step` steps."""
        saves = [one for one in self.saves if one.steps == step and one.rank == 0]
        return saves[-1].counts if saves else {}

    def saved_in(self) -> dict[int, SavePlace]:
        """Return, for the number of steps done at each save, the place of the save in the first rank's epochs."""
        trained = {batch.step: batch for batch in self.of_rank(0)}  # the last batch of each step
        places = {}
        for steps in self.steps_saved:
            before, after = trained.get(steps - 1), trained.get(steps)
            passes = {(batch.loader, batch.epoch) for batch in (before, after) if batch is not None}
            save = next(save for save in reversed(self.saves) if save.steps == steps)
            last = {batch.path: batch.steps for batch in self.saves if 0 < batch.steps <= steps}
            places[steps] = SavePlace(
                0 if before is None else before.epoch,
                len(passes) == 2,
                save.counts.get("loss", 0) > 0,
                len(set(last.values())) > 1,
            )
        return places


def read_training_notes(folder: Path) -> TrainingNotes:
    """Read what the processes of a run noted."""
    saves = list(read_notes(folder, Saved))
    declared = [one for one in saves if one.what == DECLARED_SAVE]
    return TrainingNotes(
        tuple(declared or [one for one in saves if is_of_training(one)] or saves),
        tuple(read_notes(folder, Loaded)),
        tuple(_with_loaders_renumbered(list(read_notes(folder, BatchFetched)))),
        tuple(read_notes(folder, Interrupted)),
    )


def _with_loaders_renumbered(fetched: Sequence[BatchFetched]) -> Iterator[BatchFetched]:
    """Yield the batches with loaders renumbered: loaders made anew for every epoch count as one loader.

    Among the loaders that one line iterates, one that comes back after another was iterated is a loader of its own, as
    training and evaluation in turns (0, 1, 0, 1); those that never come back (0, 1, 2) replace each other.
    """
    # Rank and kind → loader and epoch of every pass, in the order of time.
    passes: dict[tuple[int, int], dict[tuple[int, int], None]] = {}
    for batch in fetched:
        passes.setdefault((batch.rank, batch.kind), {})[batch.loader, batch.epoch] = None
    renamed = {}
    for key, pairs in passes.items():
        order = [loader for loader, _ in pairs]
        stretches = Counter(loader for at, loader in enumerate(order) if at == 0 or order[at - 1] != loader)
        passing = [loader for loader in stretches if stretches[loader] == 1]
        done: Counter[int] = Counter()
        for loader, epoch in pairs:
            counted = passing[0] if loader in passing else loader
            renamed[key, loader, epoch] = counted, done[counted]
            done[counted] += 1
    for batch in fetched:
        loader, epoch = renamed[(batch.rank, batch.kind), batch.loader, batch.epoch]
        yield replace(batch, loader=loader, epoch=epoch)


def loaded_checkpoint(killed: TrainingNotes, resumed: TrainingNotes) -> tuple[Saved | None, Loaded | None]:
    """Return the checkpoint that the resumed run starts from: its save in the killed run, and its load.

    A file is recognized by its time, as it may have been moved or copied meanwhile, and else by its path.
    """
    pairs = _loaded_first(killed, resumed)
    # The newest of several files says how far the training had come.
    unmatched = [load for load in resumed.loads if load.steps == 0 and is_of_training(load)]
    return max(pairs, key=lambda pair: pair[0].steps) if pairs else (None, unmatched[-1] if unmatched else None)


def loaded_files(killed: TrainingNotes, resumed: TrainingNotes) -> tuple[tuple[str, int], ...]:
    """Return the files that the resumed run starts from, with how many steps were done when each was saved."""
    return tuple(dict.fromkeys((Path(load.path).name, save.steps) for save, load in _loaded_first(killed, resumed)))


def _loaded_first(killed: TrainingNotes, resumed: TrainingNotes) -> list[tuple[Saved, Loaded]]:
    """Return the loads before the same step as the first one, each with the save that made the file."""
    pairs = [(save, load) for load in resumed.loads if (save := _saved_as(killed.saves, load)) is not None]
    return [(save, load) for save, load in pairs if load.steps == min(first.steps for _, first in pairs)]


def _saved_as(saves: Sequence[Saved], load: Loaded) -> Saved | None:
    """Return the last save of a loaded file: with the same path and time, else the same time, else the same path."""

    def alike(save: Saved) -> tuple[bool, bool]:
        return load.time != "" and save.time == load.time, load.path != "" and save.path == load.path

    return max((save for save in reversed(saves) if save.steps > 0 and any(alike(save))), key=alike, default=None)


def read_lacks(folder: Path) -> list[Lacks]:
    """Return what differed in a resumed run at its last comparison with the killed one, rank by rank."""
    notes = list(read_notes(folder, Lacks))
    last = {note.rank: note.time for note in notes}
    return [note for note in notes if note.time == last[note.rank]]
