"""Notes that each process of a run writes next to its recording: one JSON line per note, appended at once.

A journal needs no closing and no lock: each process has its own file, and a half-written last line is left out by the
reader. A line holds the kind of the note as `note`, and every field that differs from its default.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import ClassVar, TypeVar

from samebits.base.printable import listed
from samebits.base.records import from_data, to_data
from samebits.base.run_numbers import without_run_number
from samebits.base.sites import Site
from samebits.factors.context import Witness
from samebits.factors.seed_calls import SeedCall
from samebits.runfolder.environment import Environment, merge_environments
from samebits.runfolder.reading import MOST_TEXT_BYTES, parse_json, read_bytes, safe_files

MOST_NAMED = 8
_NOTES: dict[str, type[Note]] = {}


@dataclass(frozen=True)
class Note:
    """A note of a process."""

    note: ClassVar[str]

    def __init_subclass__(cls, note: str) -> None:
        cls.note = note
        _NOTES[note] = cls

    def to_json(self) -> dict[str, object]:
        """Return the note as plain data, as a line of a journal holds it."""
        values = ((f, getattr(self, f.name)) for f in fields(self))
        return {"note": self.note, **{f.name: to_data(value) for f, value in values if value != f.default}}


@dataclass(frozen=True)
class Started(Note, note="start"):
    """samebits started in a process.

    Attributes:
        stack: address where its stack begins, which tells a program from the one that it replaces; 0 if unknown.
    """

    executable: str
    argv: tuple[str, ...] = ()
    pid: int = 0
    stack: int = 0


@dataclass(frozen=True)
class InEffect:
    """The mode and the value of one factor when torch was imported."""

    mode: str
    value: str


@dataclass(frozen=True)
class Observed(Note, note="observed"):
    """The versions and factors that were in effect when torch was imported.

    Attributes:
        versions: library → its version; None for one that the program does not have.
        script: path of the script that runs; empty where it is no file of the user's.
    """

    versions: Mapping[str, str | None] = field(default_factory=dict)
    factors: Mapping[str, InEffect] = field(default_factory=dict)
    rank: int | None = None
    script: str = ""


class Witnessed(Witness, Note, note="witness"):
    """A witness of a factor, as a note."""


@dataclass(frozen=True)
class HandedOut(Note, note="handed-out"):
    """The operating system gave random bytes to the user's code; `begins`: the first three, in hexadecimal."""

    begins: str


@dataclass(frozen=True)
class Seeded(SeedCall, Note, note="seed"):
    """A generator was seeded; `process` tells, by its ancestors, in which process of the program."""

    process: str = ""


@dataclass(frozen=True)
class Carried(Note, note="carried"):
    """The program asked for a path that did not exist, or that it wrote to later: the next run may find other content.

    Attributes:
        how: `read`, `listed`, `tested` (whether it exists) or `made` (it was to be created anew).
        path: the path that was asked for, absolute, as in the user's own folder.
        written: the path that was written to: `path` itself, or one in the folder `path`.
        asked, wrote: the lines that did so; `wrote` is None where it is not known that this process wrote.
        step: how many steps were done when the path was asked for.
    """

    how: str
    path: str
    written: str
    asked: Site
    wrote: Site | None = None
    step: int = 0


@dataclass(frozen=True)
class Outside(Note, note="outside"):
    """A line of the program used something that no copy of the folder keeps unchanged.

    Attributes:
        kind: a `file` outside the working folder, a `program` that it started, or a `timer`.
        what: the path, the command, or the call that sets the timer; the first of its kind at each line.
    """

    kind: str
    what: str
    site: Site


@dataclass(frozen=True)
class Wrote(Note, note="wrote"):
    """A file was written to, or created: its path for the user, the first line that did so, the steps done by then."""

    path: str
    site: Site | None = None
    step: int = 0


@dataclass(frozen=True)
class Logged(Note, note="logged"):
    """The files that grew while the process trained; it wrote others, too. Paths for the user."""

    files: tuple[str, ...]


@dataclass(frozen=True)
class Reached(Note, note="reached"):
    """The program reached something outside its copy of the working folder, which other runs reach, too.

    Attributes:
        what: `file PATH`, `port NUMBER`, `shared memory NAME`.
        goes_on: the file keeps what other runs have written to it (a log that is appended to, a database).
    """

    what: str
    site: Site | None = None
    goes_on: bool = False


@dataclass(frozen=True)
class Unseen(Note, note="unseen"):
    """Something that the recording does not show, in words.

    Attributes:
        entered: whether samebits is in the process that did it.
        files: the files that the words are about, as one would type them where the run started; empty for other things.
    """

    what: str
    entered: bool = True
    files: tuple[str, ...] = ()

    @classmethod
    def written(cls, files: Sequence[str]) -> Unseen:
        """Return the note for files that were written, in words that are the same in every run."""
        shown = listed(list(dict.fromkeys(map(without_run_number, files))), MOST_NAMED, "file")
        return cls(f"what was written to {shown}: compare it yourself", files=tuple(files))

    def without_files(self, compared: Collection[str], start: str) -> Unseen | None:
        """Return this note without the files that were compared (absolute paths); None where no file is left."""
        files = [name for name in self.files if os.path.normpath(os.path.join(start, name)) not in compared]
        if len(files) == len(self.files):
            return self
        return Unseen.written(files) if files else None


@dataclass(frozen=True)
class Files(Note, note="files"):
    """The user's source files that were imported, and the script that ran them.

    Attributes:
        texts: other files of the working folder that were read as text before the first step, such as configurations.
    """

    files: tuple[str, ...]
    script: str = ""
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variable(Note, note="variable"):
    """An environment variable that a line of the user's code read.

    Attributes:
        digest: digest of name and value, 12 hex digits; `unset` where the variable was not set.
    """

    name: str
    digest: str

    @classmethod
    def of(cls, name: str, value: str | None) -> Variable:
        """Return the note for a variable; the value itself is written nowhere."""
        if value is None:
            return cls(name, "unset")
        return cls(name, hashlib.sha256(f"{name}={value}".encode(errors="surrogateescape")).hexdigest()[:12])


@dataclass(frozen=True)
class Overridden(Note, note="overridden"):
    """The program undid the pin of a factor; `why` is a clause."""

    factor: str
    why: str


@dataclass(frozen=True)
class Replaced(Note, note="replaced"):
    """Calls of one torch operation at one line that a deterministic formula of samebits computed instead."""

    op: str
    calls: int
    site: Site | None = None

    @classmethod
    def summary_of(cls, folder: Path) -> str:
        """List all replacements of a run in one line: operation, its line if known, number of calls; empty for none."""
        calls: dict[tuple[str, str], int] = {}
        for note in read_notes(folder, Replaced):
            line = f"{note.site.place}, " if note.site else ""
            calls[note.op, line] = calls.get((note.op, line), 0) + note.calls
        counted = (f"{op} ({line}{n} call{'s' if n > 1 else ''})" for (op, line), n in sorted(calls.items()))
        return ", ".join(counted)


@dataclass(frozen=True)
class Used(Note, note="used"):
    """The features that the program used, of those that some factors need, such as `ranks`."""

    what: tuple[str, ...]


@dataclass(frozen=True)
class Refused(Note, note="refused"):
    """A pin stopped the program: the error, and the line that called something that the pin forbids."""

    message: str
    where: str


@dataclass(frozen=True)
class Failed(Note, note="error"):
    """An error of samebits in a process; `kind` is as in JSON answers, or `internal` for a mistake of ours."""

    kind: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Ended(Note, note="end"):
    """The process ended; `stopped_after` is the step after which samebits ended it on purpose, None if it did not."""

    stopped_after: int | None = None


@dataclass(frozen=True)
class Cut(Note, note="cut"):
    """The event at which steps are cut: `optimizer`, `backward` or `forward`."""

    cut: str


@dataclass(frozen=True)
class ComputedIn(Note, note="environment"):
    """The environment in which the process computed, as it was when the first step was done."""

    environment: Environment = field(default_factory=Environment)


@dataclass(frozen=True)
class SteppedShared(Note, note="stepped_shared"):
    """An optimizer made its first step on parameters in shared memory: which memory, and the line that steps."""

    memory: tuple[str, ...]
    site: Site


@dataclass(frozen=True)
class OpDiverged(Note, note="op_diverged"):
    """The first operation at which this run diverges from the run that it follows."""

    rank: int
    step: int
    index: int


@dataclass(frozen=True)
class _CheckpointNote:
    """The fields of a note about a file that is saved or loaded, in a run whose checkpoints are watched.

    Attributes:
        path: absolute path of the file; empty where no file with a name was used.
        steps: optimizer steps that were done by then.
        time: when the file was last written to, by which it is recognized under another name.
    """

    path: str
    steps: int
    what: str
    site: Site | None = None
    rank: int = 0
    time: str = ""


@dataclass(frozen=True)
class Saved(_CheckpointNote, Note, note="saved"):
    """Something was saved to a file.

    Attributes:
        counts: stream → how many of its entries had come in the current step by then.
        is_aside: whether another thread saved it while the training went on.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    is_aside: bool = False


@dataclass(frozen=True)
class Loaded(_CheckpointNote, Note, note="loaded"):
    """Something was loaded from a file."""


@dataclass(frozen=True)
class Lacks(Note, note="lacks"):
    """A value in a resumed run that differs from the value that the killed run held when it had saved.

    Attributes:
        path: expression by which the program reaches the value, such as `trainer.best`.
        state: the part of a training's state that the value belongs to, such as `optimizer`.
        then, now: the value in the killed and in the resumed run; empty where it is long, or neither number nor text.
        can_put: whether samebits can restore the value.
        time: how often something had been loaded when the values were compared; the last comparison counts.
    """

    path: str
    state: str
    then: str = ""
    now: str = ""
    can_put: bool = True
    rank: int = 0
    time: int = 1


@dataclass(frozen=True)
class BatchFetched(Note, note="fetched"):
    """A loader handed over a batch, in a run whose checkpoints are watched.

    Attributes:
        step, number: optimizer steps that were done by then, and the number of the batch in the step.
        indices: digest of the indices of its samples; empty where there are none.
        loader: number of the loader, from 0 in the order of first use; loaders of one dataset share a number.
        epoch, position: how often that loader was iterated before, and the number of the batch in that epoch.
        draws: whether the order of that epoch was drawn from a global generator.
        ahead: how many batches its workers fetch ahead.
        kind: the same number for loaders that one line iterates, if class and size of dataset and batch size are equal.
    """

    step: int
    number: int
    indices: str = ""
    loader: int = 0
    epoch: int = 0
    position: int = 0
    ahead: int = 0
    draws: bool = False
    rank: int = 0
    kind: int = 0


@dataclass(frozen=True)
class Interrupted(Note, note="interrupted"):
    """samebits stopped the process on purpose, as a killed training is stopped.

    Attributes:
        step: the last step that was done; -1 before the first.
        torn: the file of which only half was left.
    """

    step: int
    signal: str
    rank: int = 0
    torn: str = ""


AnyNote = TypeVar("AnyNote", bound=Note)


class Journal:
    """Appends the notes of a process to a file of its own; a forked child has another file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pid = 0
        # Lines that could not be written so far.
        self._waiting: deque[bytes] = deque()

    def note(self, note: Note) -> None:
        """Append one line. A full disk must not end the user's run: the note then waits for the next one.

        Each line is one write, so threads, and signal handlers that interrupt it, need no lock.
        """
        pid = os.getpid()
        if self._pid != pid:
            self._pid, self._waiting = pid, deque()
        path = self.folder / f"journal.{platform.node()}.{pid}.jsonl"
        lines = b""
        with suppress(IndexError):  # each waiting line is taken by one thread
            while True:
                lines += self._waiting.popleft()
        lines += json.dumps(note.to_json()).encode() + b"\n"
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                while lines:
                    lines = lines[os.write(handle, lines) :]
            finally:
                os.close(handle)
        except OSError:
            self._waiting.append(lines)


def read_notes(folder: Path, kind: type[AnyNote]) -> Iterator[AnyNote]:
    """The notes of one kind from all processes of a run, process by process; the kind `Note` gives all notes."""
    for notes in read_processes(folder):
        yield from (note for note in notes if isinstance(note, kind))


def noted_environment(folder: Path) -> Environment:
    """Return the environment in which the processes of a run computed; unknown where none finished a step."""
    return merge_environments(note.environment for note in read_notes(folder, ComputedIn))


def read_processes(folder: Path) -> Iterator[list[Note]]:
    """The notes of each process of a run, one list per process."""
    for path in sorted(safe_files(folder, "journal.*.jsonl"), key=lambda p: (p.stat().st_mtime_ns, p.name)):
        notes = map(_noted, read_bytes(path, folder, MOST_TEXT_BYTES).split(b"\n")[:-1])
        yield [note for note in notes if note is not None]


def _noted(line: bytes) -> Note | None:
    """Return the note in a line; None where there is none, or one that only a newer samebits knows.

    A note of a known kind that cannot be read becomes an `Unseen`, so that it is not overlooked.
    """
    content = None
    with suppress(ValueError):
        content = parse_json(line)
    name = content.get("note") if isinstance(content, dict) else None
    kind = _NOTES.get(str(name))
    try:
        return None if kind is None else from_data(kind, content)
    except ValueError as error:
        return Unseen(f"a note {name!r} of a process, which cannot be read: {error}")
