"""A patch: edits for the causes that code can mend, and for each of the others the reason why it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from samebits.base.sites import Site
from samebits.fixing import cures, seeding
from samebits.fixing.cures import Cure, EditableFiles, MendRequest
from samebits.fixing.edits import Edit, FileChange, NoCureError
from samebits.fixing.insertion_points import Opening, opened

_Way = Callable[[EditableFiles, MendRequest], Cure]
_SEEDS: tuple[_Way, ...] = (
    seeding.seed_of_option,
    seeding.seed_of_default,
    seeding.seed_moved,
    seeding.seed_beside,
    seeding.seed_at_start,
)
# Factor → the ways to mend it, the one that fits best into the script first. No edit mends a factor that is missing.
WAYS: Mapping[str, tuple[_Way, ...]] = {
    "torch-rng": _SEEDS,
    "numpy-rng": _SEEDS,
    "python-rng": _SEEDS,
    "os-entropy": (seeding.seed_given, seeding.seed_fixed, seeding.drawn_instead),
    "clock": (seeding.seed_fixed,),
    "process-id": (seeding.seed_fixed,),
    "hash-seed": (cures.without_hashes,),
    "memory-addresses": (cures.ordered_set,),
    "file-order": (cures.sort_listing,),
    "completion-order": (cures.in_order_of_tasks,),
    "uninitialized-memory": (cures.fill_with_zeros,),
    "data-workers": (cures.keyed_loader,),
    "cpu-threads": (cures.fixed_threads,),
    "torch-algorithms": (cures.deterministic,),
    "cudnn-autotune": (cures.steady_flag,),
    "cudnn-algorithms": (cures.steady_flag,),
    "float-precision": (cures.highest_precision,),
    # No factors, but kinds of findings of `samebits lint`.
    "generator": (cures.own_generator,),
    "another seed": (seeding.seed_as_others,),
    "evaluation": (cures.unshuffled,),
    "misspelt": (cures.correct_spelling,),
    "late variable": (cures.set_above,),
}


@dataclass(frozen=True)
class Mend:
    """One cause that a patch mends.

    Attributes:
        factor: its name.
        site: the line; None where there is none.
        does: what the patch does about it, as a clause.
        effect: what else is another than before, as a clause.
    """

    factor: str
    site: Site | None = field(metadata={"key": "location"})
    does: str
    effect: str


@dataclass(frozen=True)
class Unmended:
    """One cause that no patch mends.

    Attributes:
        factor: its name.
        site: the line; None where there is none.
        why: as a clause.
        fix: what a person would change, in words.
    """

    factor: str
    site: Site | None = field(metadata={"key": "location"})
    why: str
    fix: str = ""


@dataclass(frozen=True)
class Draft:
    """A patch that no check has proved yet.

    Attributes:
        changes: the changed files.
        mends: causes that the patch mends.
        cannot: causes that it cannot mend.
    """

    changes: tuple[FileChange, ...] = ()
    mends: tuple[Mend, ...] = ()
    cannot: tuple[Unmended, ...] = ()

    @property
    def lines(self) -> int:
        return sum(one.lines for one in self.changes)

    @property
    def diff(self) -> str:
        return "".join(one.diff for one in self.changes)


def patch(causes: Sequence[MendRequest], files: EditableFiles, attempt: int = 0) -> Draft:
    """Return a patch that mends as many of the causes as edits can.

    Args:
        causes: the causes to mend.
        files: the files that may be edited.
        attempt: number of patches that did not help before; each moves every cause on to its next way, if it has one.
    """
    edits = dict[str, list[Edit | Opening]]()
    mends, cannot, changes = list[Mend](), list[Unmended](), list[FileChange]()
    for cause in causes:
        try:
            cure = _cured(cause, files, attempt)
            combined = {path: [*edits.get(path, ()), *cure.edits.get(path, ())] for path in (*edits, *cure.edits)}
            changed = _changes(files, combined)
        except NoCureError as error:
            cannot.append(Unmended(cause.factor, cause.site, str(error), cause.fix))
            continue
        edits, changes = combined, changed
        mends.append(Mend(cause.factor, cause.site, cure.does, cure.effect))
    return Draft(tuple(changes), tuple(mends), tuple(cannot))


def _cured(wanted: MendRequest, files: EditableFiles, attempt: int) -> Cure:
    """Return the cure of the first way that applies, after skipping `attempt` such ways, else of the last that does."""
    why, applicable = "", list[Cure]()
    for way in WAYS.get(wanted.factor, ()):
        try:
            applicable.append(way(files, wanted))
        except NoCureError as error:
            why = str(error)
            continue
        if len(applicable) > attempt:
            break
    if not applicable:
        raise NoCureError(why or "no edit of the code mends it")
    return applicable[-1]


def _changes(files: EditableFiles, edits: Mapping[str, Sequence[Edit | Opening]]) -> list[FileChange]:
    """Return the changed files; NoCureError where edits cannot be combined."""
    inside = {path: [edit for edit in parts if isinstance(edit, Edit)] for path, parts in edits.items()}
    changes = []
    # Files that only get lines at their start come last.
    for path in sorted(edits, key=lambda path: not inside[path]):
        file = files.of(path)
        change = file.changed([*inside[path], *opened(file, [one for one in edits[path] if isinstance(one, Opening)])])
        if change.before != change.after:
            changes.append(change)
    return changes
