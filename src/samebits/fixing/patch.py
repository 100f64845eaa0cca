"""A patch: what can be mended is mended by edits, and of the rest it is said why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from samebits.base.sites import Site
from samebits.fixing import cures, seeding
from samebits.fixing.cures import Cure, Sources, Wanted
from samebits.fixing.edits import Edit, FileChange, NoCureError
from samebits.fixing.openings import Opening, opened

_Way = Callable[[Sources, Wanted], Cure]
_SEEDS: tuple[_Way, ...] = (
    seeding.seed_of_option,
    seeding.seed_of_default,
    seeding.seed_moved,
    seeding.seed_beside,
    seeding.seed_at_start,
)
# Of each factor the ways to mend it, the one that fits best into the script first. Without one, no edit mends it.
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
    "uninitialized-memory": (cures.filled,),
    "data-workers": (cures.keyed_loader,),
    "cpu-threads": (cures.fixed_threads,),
    "torch-algorithms": (cures.deterministic,),
    "cudnn-autotune": (cures.steady_flag,),
    "cudnn-algorithms": (cures.steady_flag,),
    "float-precision": (cures.highest_precision,),
    # No factor: what reading finds.
    "generator": (cures.own_generator,),
    "another seed": (seeding.seed_as_others,),
    "evaluation": (cures.unshuffled,),
    "misspelt": (cures.spelt,),
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
    """A patch that nobody has proved.

    Attributes:
        changes: the files.
        mends: causes that it mends.
        cannot: causes that it leaves.
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


def patch(causes: Sequence[Wanted], files: Sources, attempt: int = 0) -> Draft:
    """The edits that mend causes.

    Args:
        causes: what is to be mended.
        files: that may be edited.
        attempt: how many other patches did not help: then each cause is mended in the next of the ways that it has.
    """
    edits = dict[str, list[Edit | Opening]]()
    mends, cannot, changes = list[Mend](), list[Unmended](), list[FileChange]()
    for one in causes:
        try:
            cure = _cured(one, files, attempt)
            own = {path: [*edits.get(path, ()), *cure.edits.get(path, ())] for path in (*edits, *cure.edits)}
            made = _changes(files, own)
        except NoCureError as error:
            cannot.append(Unmended(one.factor, one.site, str(error), one.fix))
            continue
        edits, changes = own, made
        mends.append(Mend(one.factor, one.site, cure.does, cure.effect))
    return Draft(tuple(changes), tuple(mends), tuple(cannot))


def _cured(wanted: Wanted, files: Sources, attempt: int) -> Cure:
    """The first way that can be gone after as many others; the last one that can where there are no more."""
    why, found = "", list[Cure]()
    for way in WAYS.get(wanted.factor, ()):
        try:
            found.append(way(files, wanted))
        except NoCureError as error:
            why = str(error)
            continue
        if len(found) > attempt:
            break
    if not found:
        raise NoCureError(why or "no edit of the code mends it")
    return found[-1]


def _changes(files: Sources, edits: Mapping[str, Sequence[Edit | Opening]]) -> list[FileChange]:
    """What all edits make of the files; NoCureError where they cannot stand together."""
    inside = {path: [one for one in each if isinstance(one, Edit)] for path, each in edits.items()}
    made = []
    # Files that only begin otherwise come last.
    for path in sorted(edits, key=lambda path: not inside[path]):
        own = files.of(path)
        change = own.changed([*inside[path], *opened(own, [one for one in edits[path] if isinstance(one, Opening)])])
        if change.before != change.after:
            made.append(change)
    return made
