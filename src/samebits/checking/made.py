"""What the runs of a check have made: read while their places are there, and compared, each pair once."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import replace

from samebits.checking.verdict import Run
from samebits.comparison.products import (
    Key,
    LeafDifference,
    Products,
    differing_beyond_ids,
    differing_leaves,
    read_products,
)
from samebits.launch.process import Outcome
from samebits.runfolder.notes import HandedOut, Logged, Reached, Started, read_notes
from samebits.workspace.place import Place, is_in, is_named
from samebits.workspace.workspace import Workspace


class MadeByRuns:
    """The files and prints of runs.

    Args:
        workspace: the workspace of these runs.
        ignored: patterns of files that are not compared.

    Attributes:
        is_compared: whether they are read at all.
        matched: the patterns that named a file of some run.
    """

    def __init__(self, workspace: Workspace, ignored: Collection[str]) -> None:
        self.is_compared, self.matched = False, set[str]()
        self._workspace, self._ignored = workspace, ignored
        self._differing: dict[tuple[int, int], list[LeafDifference]] = {}

    def read(self, outcome: Outcome, place: Place) -> Products:
        """Read what a run has made, as long as its place is there."""
        if not self.is_compared:
            return Products()
        # A file that a run finds there and appends to is not its own product.
        reached = (note.what for note in read_notes(outcome.path, Reached) if not note.goes_on)
        outside = [what.removeprefix("file ") for what in reached if what.startswith("file ")]
        names = {place.root: "", place.files: "{run}", place.temporary: "{tmp}"}

        def said(text: str) -> str:
            for path in filter(None, names):
                text = text.replace(path, names[path])
            return text

        files = self._workspace.products(place, outside)
        files = {path: file for path, file in files.items() if not self._is_ignored(path)}
        ids = {str(note.pid) for note in read_notes(outcome.path, Started)}
        # A name often has four characters of an id only.
        ids |= {begins for note in read_notes(outcome.path, HandedOut) for begins in (note.begins, note.begins[:4])}
        logs = frozenset(path for note in read_notes(outcome.path, Logged) for path in note.files)
        printed, messages = outcome.folder.stdout, outcome.folder.messages
        return read_products(files, printed, messages, said, outcome.stopped, frozenset(ids), logs)

    def _is_ignored(self, path: str) -> bool:
        matching = {pattern for pattern in self._ignored if is_named(path, pattern, self._workspace.folder)}
        self.matched |= matching
        return bool(matching)

    def differing(self, a: Run, b: Run) -> list[LeafDifference]:
        """Return the leaves that differ in the files and prints of two runs."""
        if (a.id, b.id) not in self._differing:
            leaves = differing_leaves(self._of(a, b), self._of(b, a))
            self._differing[a.id, b.id] = [one for one in leaves if not self._is_from_earlier_run(one, a, b)]
        return self._differing[a.id, b.id]

    def differing_beyond_ids(self, heard: Run, other: Run) -> frozenset[Key]:
        """Return the leaves that differ between two runs, except where the first one quotes its own ids."""
        return differing_beyond_ids(self._of(heard, other), self._of(other, heard))

    def _is_from_earlier_run(self, one: LeafDifference, a: Run, b: Run) -> bool:
        """Whether only the earlier run wrote a file, outside all copies: the later run found it there."""
        earlier = one.a if a.id < b.id else one.b
        is_alone = not one.key[1] and None in (one.a, one.b) and earlier is not None
        return is_alone and os.path.isabs(one.path) and not is_in(one.path, self._workspace.folder)

    def _of(self, run: Run, other: Run) -> Products:
        """Return the products of a run without prepared files, unless the other run wrote these itself."""
        files, prepared = run.products.files, self._workspace.prepared - other.products.files.keys()
        return replace(run.products, files={path: one for path, one in files.items() if path not in prepared})
