"""What a run leaves that was ended in the middle: the next one is not to be misled by it.

A run that goes to its end may take away its lock, or the checkpoint from which it would have gone on. So one that found
what a run before it had left halfway, and has other bits than all others, is made again in the folder as the check
found it; and so is, from then on, every one that comes after a run that was ended. What whole runs leave stays there:
that is what the script leaves for its next run.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from samebits.base.sites import shown_path
from samebits.checking.places import ASIDE, Places, setting_of
from samebits.checking.verdict import Run
from samebits.launch.process import Outcome
from samebits.runfolder.ledger import has_changed
from samebits.runfolder.notes import Ended, read_notes
from samebits.runfolder.plan import RunPlan

if TYPE_CHECKING:
    from samebits.checking.pool import Job, RunPool


class Halfway:
    """Makes runs that are alone in the working folder.

    Args:
        pool: to which they belong.
        places: where they happen.
    """

    def __init__(self, pool: RunPool, places: Places) -> None:
        self._pool, self._places = pool, places
        # Numbers of those that were ended in the middle and had changed something, since one went to its end.
        self._ended: list[int] = []
        self._misleads = self._was_whole = False
        # Paths that misled a run, also in other folders.
        self._found = set[str]()

    @property
    def is_open(self) -> bool:
        """Whether the working folder is as a run left it that was ended in the middle."""
        return bool(self._ended)

    @property
    def untested(self) -> tuple[str, ...]:
        """What was not seen because runs were ended, as a sentence without an end."""
        is_known = not self._misleads or self._was_whole
        return () if is_known else ("what a run leaves for the next one: all were ended in the middle",)

    def made(self, job: Job) -> Outcome:
        """How a run ended; one that was misled is made once more."""
        number, plan = job
        if setting_of(plan).mode != "natural":
            return self._pool.ended(*job)
        if self._misleads:
            self.put_back()
        outcome = self._pool.ended(*job)
        if self.is_open and self._is_misled(run := self._pool.read(number, outcome)):
            self._remark(run)
            self._misleads = True
            self._found.update(left.path for left in run.facts.left)
            self.put_back()
            shutil.rmtree(run.path)
            outcome = self._pool.ended(*job)
        self.learn(number, plan, outcome)
        return outcome

    def learn(self, number: int, plan: RunPlan, outcome: Outcome) -> None:
        """What a run has left in the working folder."""
        if setting_of(plan).mode != "natural":
            return
        path = outcome.folder.path
        is_ended = any(note.stopped_after is not None for note in read_notes(path, Ended))
        if outcome.succeeded and not is_ended:
            self._ended, self._was_whole = [], True
        elif (is_ended or outcome.timed_out) and has_changed(path):
            self._ended.append(number)

    def close(self) -> None:
        """The script is not to meet it either, when it runs the next time."""
        if self._misleads:
            self.put_back()

    def put_back(self) -> None:
        """The working folder as the check found it, where it is as a run left it that was ended in the middle."""
        if self._ended:
            self._places.put_back(self._found)
            self._ended = []

    def _is_misled(self, run: Run) -> bool:
        others = (one for one in self._pool.runs if one.id != run.id)
        return bool(run.facts.left) and all(self._pool.differ(one, run) is not None for one in others)

    def _remark(self, run: Run) -> None:
        found = run.facts.left[0]
        writer = found.writer if found.writer in self._ended else self._ended[-1]
        self._pool.remarks.append(
            f"run {run.id} was made again in the folder as the check found it: it met {shown_path(found.path)} "
            f"({found.site.place}), which run {writer} had left when it was ended in the middle; what runs had left is "
            f"in {shown_path(str(self._pool.home / ASIDE))} now"
        )
