"""One run of a locked command, or an existing recording: what either provides for a comparison with a lock."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from signal import SIGINT

from samebits.base.errors import LockfileError, SamebitsError, ScriptFailedError
from samebits.base.sites import shown_path
from samebits.checking.plan import CheckRequest
from samebits.checking.pool import BudgetSpentError, PoolContext, RunPool
from samebits.checking.unjudgeable import why_unjudgeable
from samebits.comparison.streams import not_seen, streams_of
from samebits.factors.pinning import parsed_settings
from samebits.launch.command import parse_command
from samebits.launch.process import Outcome, stopped_after
from samebits.launch.signals import interruptible
from samebits.locking.code import files_in
from samebits.locking.entries import RunEntry
from samebits.locking.files import digest_at, is_written
from samebits.runfolder.environment import Environment
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Files, Variable, noted_environment, read_notes
from samebits.runfolder.reading import safe_path
from samebits.runfolder.steps import Recording
from samebits.workspace.place import FILES, Isolation, Place, is_in, read_place, with_run_folder
from samebits.workspace.trees import changed_since


@dataclass(frozen=True)
class FinishedRun:
    """A run, as far as it is locked or compared with a lock; read from its folder.

    Attributes:
        most_steps: how many steps the run was to take; 0 where it was to go to its end.
        artifacts: path as given → digest; None where there is no such file. A path that was not looked at is left out.
        compared: the absolute paths of the artifacts, with `{run}` as it was typed.
        trouble: why the run cannot be judged.
    """

    folder: RunFolder
    most_steps: int = 0
    artifacts: Mapping[str, str | None] = field(default_factory=dict)
    compared: Collection[str] = ()
    trouble: SamebitsError | None = None

    @cached_property
    def recordings(self) -> Sequence[Recording]:
        return self.folder.recordings()

    @cached_property
    def environment(self) -> Environment:
        return noted_environment(self.folder.path)

    @property
    def code(self) -> set[str]:
        """The user's files (absolute): imported, read as text before the first step, or named in the command."""
        read = {path for note in read_notes(self.folder.path, Files) for path in (*note.files, *note.texts)}
        return {*read, *files_in(self.folder.manifest().get("typed", ()))}

    @cached_property
    def variables(self) -> dict[str, str]:
        """The environment variables that the user's lines asked for: name → digest of the value."""
        # A variable with several values was set by the launcher or the script, such as one that differs by rank.
        asked = [(note.name, note.digest) for note in read_notes(self.folder.path, Variable)]
        return {name: digest for name, digest in asked if all(other == digest for own, other in asked if own == name)}

    @cached_property
    def is_whole(self) -> bool:
        """Whether the run ended by itself, or at the step at which it was to end."""
        manifest, end = self.folder.manifest(), stopped_after(self.folder)
        ended = manifest.get("status") in ("ended", "stopped") and manifest.get("exit_code", 0) == 0
        if end is not None:
            return ended and end + 1 == self.most_steps
        return ended and all(recording.complete for recording in self.recordings)

    @property
    def not_observed(self) -> tuple[str, ...]:
        place = read_place(self.folder.path)
        start, steps = place.start if place else "", max((one.steps for one in self.recordings), default=0)
        streams = streams_of([self.recordings]) if self.recordings else ()
        return not_seen([self.folder.path], streams, steps, lambda note: note.without_files(self.compared, start))


def edited_since(moment: float, ran: FinishedRun, request: CheckRequest) -> LockfileError | None:
    """Return the error for code that has changed since a moment: the run began with a copy of what was there then."""
    shared = [os.path.abspath(path) for path in request.share]
    copied = (path for path in sorted(ran.code) if not any(is_in(path, one) for one in shared))
    edited = changed_since((path for path in copied if is_in(path, os.getcwd())), moment)
    if edited is None or request.isolation == "none":
        return None
    return LockfileError(f"{shown_path(edited)} was changed while the command ran with a copy of it", "run this again")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options with which the runs of entries are made, as in `checking.plan.CheckRequest`."""

    timeout: float | None = None
    share: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    isolation: Isolation = "copy"

    def runs_of(self, entry: RunEntry) -> CheckRequest:
        """Return the request for the runs of an entry."""
        return CheckRequest(
            parse_command(entry.command),
            parsed_settings(entry.pins),
            seed=entry.seed,
            max_steps=entry.max_steps or None,
            timeout=self.timeout,
            share=self.share,
            ignore=self.ignore,
            isolation=self.isolation,
            strict=True,  # what is locked is all that is recorded
        )


def run_entry(request: CheckRequest, entry: RunEntry, context: PoolContext, role: str, name: str = "") -> FinishedRun:
    """Run a locked command, or one to be locked, in a folder named after `name` and `role`, and digest its artifacts.

    Raises:
        InterruptError: a signal ended the run.
    """
    home = context.home / f"{name and f'{folder_name(name)}-'}{role}".replace(" ", "-")
    home.mkdir(parents=True, exist_ok=True)
    file_digests: dict[str, str | None] = {}
    compared = set[str]()
    started = time.time()

    def digest(_: Outcome, place: Place) -> None:
        began = pool.workspace.began(place) if place.copy else started
        for path in entry.artifacts:
            compared.add(os.path.normpath(os.path.join(place.start, path)))
            seen = os.path.join(place.start, with_run_folder([path], place.files)[0])
            file = Path(place.path_outside(os.path.normpath(seen)))
            # A file that was there before is not of this run.
            file_digests[path] = digest_at(file) if is_written(file, began) else None

    with (
        interruptible(context.home),
        context.watching() as watch,
        closing(RunPool(request, home, watch, announce=context.announce)) as pool,
    ):
        pool.at_end = digest
        try:
            run = pool.run(request.base(role))
        except BudgetSpentError as spent:
            # `interruptible` turns this into an InterruptError.
            raise KeyboardInterrupt(spent.signal or SIGINT) from spent
    trouble = why_unjudgeable([run])
    if isinstance(trouble, ScriptFailedError):
        trouble = ScriptFailedError(trouble.message.replace("in 1 of 1 runs ", ""), trouble.hint)
    return FinishedRun(run.folder, entry.max_steps, file_digests, compared, trouble)


def folder_name(name: str) -> str:
    """Return an entry's name, made safe for a folder."""
    return "".join(one if one.isalnum() or one in "-_." else "-" for one in name).strip(".") or "run"


def recorded_artifacts(folder: RunFolder, artifacts: Iterable[str]) -> dict[str, str | None]:
    """Return the digests of artifacts in a run's own folder; files elsewhere may have changed since the run."""
    files = str(folder.path / FILES)
    resolved = {path: with_run_folder([path], files)[0] for path in artifacts}
    inside = {path: there for path, there in resolved.items() if there != path and Path(files).exists()}
    return {path: digest_at(safe_path(Path(there), folder.path)) for path, there in inside.items()}
