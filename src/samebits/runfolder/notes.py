"""What each process of a run noted besides its recording: one JSON line per note, appended at once.

A journal needs no closing and no lock: each process has its own file, and a half-written last line is left out by the
reader. A line holds the kind of the record as `note`, and every field that is not what it is when left out.
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
from samebits.base.sites import Site
from samebits.base.versions import without_version
from samebits.factors.context import Witness
from samebits.factors.seed_calls import SeedCall
from samebits.runfolder.environment import Environment, together
from samebits.runfolder.reading import MOST_TEXT_BYTES, parsed, read_bytes, safe_files

MOST_NAMED = 8
_NOTES: dict[str, type[Note]] = {}


@dataclass(frozen=True)
class Note:
    """Something that a process noted."""

    note: ClassVar[str]

    def __init_subclass__(cls, note: str) -> None:
        cls.note = note
        _NOTES[note] = cls

    def to_json(self) -> dict[str, object]:
        """A line of a journal as plain data."""
        known = ((one, getattr(self, one.name)) for one in fields(self))
        return {"note": self.note, **{one.name: to_data(value) for one, value in known if value != one.default}}


@dataclass(frozen=True)
class Started(Note, note="start"):
    """samebits started in a process.

    Attributes:
        stack: where its stack begins, which tells a program from the one that it replaces; 0 if unknown.
    """

    executable: str
    argv: tuple[str, ...] = ()
    pid: int = 0
    stack: int = 0


@dataclass(frozen=True)
class InEffect:
    """One factor as torch found it: how samebits treats it, and its value."""

    mode: str
    value: str


@dataclass(frozen=True)
class Observed(Note, note="observed"):
    """What was in effect when torch was imported.

    Attributes:
        versions: of what the program uses; None for what it has not.
        script: path of the script that runs; empty where that is no file of the user's.
    """

    versions: Mapping[str, str | None] = field(default_factory=dict)
    factors: Mapping[str, InEffect] = field(default_factory=dict)
    rank: int | None = None
    script: str = ""


class Witnessed(Witness, Note, note="witness"):
    """A witness, as a note."""


@dataclass(frozen=True)
class HandedOut(Note, note="handed-out"):
    """The operating system handed out bytes to the user's code; `begins`: the first three, in hexadecimal."""

    begins: str


@dataclass(frozen=True)
class Seeded(SeedCall, Note, note="seed"):
    """A generator was seeded in this process of the program."""

    process: str = ""


@dataclass(frozen=True)
class Carried(Note, note="carried"):
    """Something was asked for that this run wrote later, or that was not there: the next run may find it.

    Attributes:
        how: `read`, `listed`, `tested` (whether it is there) or `made` (it was to be made anew).
        path: that was asked for, absolute, as in the user's own folder.
        written: the path that was written, the same or one in the folder `path`.
        asked, wrote: the lines; None where it is not known that this process wrote.
        step: how many steps were done when it was asked for.
    """

    how: str
    path: str
    written: str
    asked: Site
    wrote: Site | None = None
    step: int = 0


@dataclass(frozen=True)
class Outside(Note, note="outside"):
    """What a line of the program's took from where no copy holds it still.

    Attributes:
        kind: a `file` outside the working folder, a `program` that it started, or a `timer`.
        what: the path, the command, or what sets the timer; the first one at each line.
    """

    kind: str
    what: str
    site: Site


@dataclass(frozen=True)
class Wrote(Note, note="wrote"):
    """A file was written, or begun: as the user calls it, the line that did it first, and the steps done by then."""

    path: str
    site: Site | None = None
    step: int = 0


@dataclass(frozen=True)
class Reached(Note, note="reached"):
    """Something outside the copy of the working folder: other runs meet it, too.

    Attributes:
        what: `file PATH`, `port NUMBER`, `shared memory NAME`.
        goes_on: what other runs have written to the file stays in it (a log that is appended to, a database).
    """

    what: str
    site: Site | None = None
    goes_on: bool = False


@dataclass(frozen=True)
class Unseen(Note, note="unseen"):
    """Something that the recording does not hold, in words.

    Attributes:
        entered: samebits is in the process that did it.
        files: of which it speaks, as one would type them where the run started; empty where it is something else.
    """

    what: str
    entered: bool = True
    files: tuple[str, ...] = ()

    @classmethod
    def written(cls, files: Sequence[str]) -> Unseen:
        """What was written to some files, the same words in every run."""
        shown = listed(list(dict.fromkeys(map(without_version, files))), MOST_NAMED, "file")
        return cls(f"what was written to {shown}: compare it yourself", files=tuple(files))

    def beside(self, compared: Collection[str], start: str) -> Unseen | None:
        """The same without files that were compared in another way, as absolute paths; None where none is left."""
        files = [name for name in self.files if os.path.normpath(os.path.join(start, name)) not in compared]
        if len(files) == len(self.files):
            return self
        return Unseen.written(files) if files else None


@dataclass(frozen=True)
class Files(Note, note="files"):
    """The user's source files that were imported, and the script that ran them.

    Attributes:
        texts: further files of the working folder that were read as text before the first step: configurations.
    """

    files: tuple[str, ...]
    script: str = ""
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Variable(Note, note="variable"):
    """An environment variable that a line of the user's asked for.

    Attributes:
        digest: of name and value, 12 hex digits; `unset` where there was none.
    """

    name: str
    digest: str

    @classmethod
    def of(cls, name: str, value: str | None) -> Variable:
        """The note of a variable; the value itself is written nowhere."""
        if value is None:
            return cls(name, "unset")
        return cls(name, hashlib.sha256(f"{name}={value}".encode(errors="surrogateescape")).hexdigest()[:12])


@dataclass(frozen=True)
class Overridden(Note, note="overridden"):
    """A factor was pinned, and the program undid that: why, as a clause."""

    factor: str
    why: str


@dataclass(frozen=True)
class Replaced(Note, note="replaced"):
    """Calls of one of torch's operations at one line that were answered by a deterministic formula of ours."""

    op: str
    calls: int
    site: Site | None = None

    @classmethod
    def told(cls, folder: Path) -> str:
        """All of a run in one line: operations, lines where they are known, calls; empty where nothing was replaced."""
        calls: dict[tuple[str, str], int] = {}
        for note in read_notes(folder, Replaced):
            place = f"{note.site.place}, " if note.site else ""
            calls[note.op, place] = calls.get((note.op, place), 0) + note.calls
        counted = (f"{op} ({place}{n} call{'s' if n > 1 else ''})" for (op, place), n in sorted(calls.items()))
        return ", ".join(counted)


@dataclass(frozen=True)
class Used(Note, note="used"):
    """Which of the things that some factors need the program used."""

    what: tuple[str, ...]


@dataclass(frozen=True)
class Refused(Note, note="refused"):
    """A pin stopped the program: its error, and the line that called what the pin forbids."""

    message: str
    where: str


@dataclass(frozen=True)
class Failed(Note, note="error"):
    """What ended a recording; of the kinds in JSON answers, or a mistake of ours."""

    kind: str
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Ended(Note, note="end"):
    """The process came to its end; `stopped_after` is the step after which samebits ended it on purpose."""

    stopped_after: int | None = None


@dataclass(frozen=True)
class Cut(Note, note="cut"):
    """What steps are cut at: `optimizer`, `backward` or `forward`."""

    cut: str


@dataclass(frozen=True)
class ComputedIn(Note, note="environment"):
    """What the process computed with, as it was when the first step was done."""

    environment: Environment = field(default_factory=Environment)


@dataclass(frozen=True)
class SteppedShared(Note, note="stepped_shared"):
    """An optimizer made its first step on parameters in shared memory: which memory, and the line that steps."""

    memory: tuple[str, ...]
    site: Site


@dataclass(frozen=True)
class OpDiverged(Note, note="op_diverged"):
    """The operation at which this run diverges from the one that it follows."""

    rank: int
    step: int
    index: int


@dataclass(frozen=True)
class _OfCheckpoint:
    """What is noted of a file that is saved or loaded, in a run whose checkpoints are watched.

    Attributes:
        path: absolute; empty where it went to no file with a name.
        steps: optimizer steps that were done by then.
        time: when the file was written to, by which it is known under another name.
    """

    path: str
    steps: int
    what: str
    site: Site | None = None
    rank: int = 0
    time: str = ""


@dataclass(frozen=True)
class Saved(_OfCheckpoint, Note, note="saved"):
    """Something was saved to a file.

    Attributes:
        counts: stream → how many things of it had come in that step by then.
        is_aside: by another thread, during the training.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    is_aside: bool = False


@dataclass(frozen=True)
class Loaded(_OfCheckpoint, Note, note="loaded"):
    """Something that was saved was loaded."""


@dataclass(frozen=True)
class Lacks(Note, note="lacks"):
    """What a resumed run holds otherwise than the killed one held it when it had saved.

    Attributes:
        path: by which the program reaches it, such as `trainer.best`.
        state: of a training, which it belongs to.
        then, now: in few words; empty for what is long, or neither number nor text.
        can_put: it can be given back.
        time: it was compared so often by then; the last time counts.
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
    """A loader handed a batch over, in a run whose checkpoints are watched.

    Attributes:
        step, number: optimizer steps that were done by then, and batches within the step.
        indices: digest of the indices that it was made of; empty where there are none.
        loader: they count from 0 as they are first iterated; those of one dataset are one.
        epoch, position: how often that one was iterated before, and the batch in that epoch.
        draws: the order of that epoch was drawn from a global generator.
        ahead: how many batches its workers fetch ahead.
        kind: the same for loaders that one line iterates, of datasets of one class and size.
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
        step: the last one that was done; -1 before the first.
        torn: the file of which half was left.
    """

    step: int
    signal: str
    rank: int = 0
    torn: str = ""


AnyNote = TypeVar("AnyNote", bound=Note)


class Journal:
    """Appends notes of this process to a file of its own; a forked child has another file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._pid = 0
        # What could not be written.
        self._waiting: deque[bytes] = deque()

    def note(self, note: Note) -> None:
        """Append one line. A full disk must not end the user's run: the note then waits for the next one.

        Lines are one write, so threads, and signal handlers in the midst of it, need no lock.
        """
        pid = os.getpid()
        if self._pid != pid:
            self._pid, self._waiting = pid, deque()
        path = self.folder / f"journal.{platform.node()}.{pid}.jsonl"
        lines = b""
        with suppress(IndexError):  # what waits goes to one thread
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
    """The notes of one kind of all processes of a run, process by process; `Note` stands for every kind."""
    for notes in read_processes(folder):
        yield from (note for note in notes if isinstance(note, kind))


def noted_environment(folder: Path) -> Environment:
    """What the processes of a run computed with; all of it unknown where none came to the end of a step."""
    return together(note.environment for note in read_notes(folder, ComputedIn))


def read_processes(folder: Path) -> Iterator[list[Note]]:
    """The notes of each process of a run."""
    for path in sorted(safe_files(folder, "journal.*.jsonl"), key=lambda p: (p.stat().st_mtime_ns, p.name)):
        notes = map(_noted, read_bytes(path, folder, MOST_TEXT_BYTES).split(b"\n")[:-1])
        yield [note for note in notes if note is not None]


def _noted(line: bytes) -> Note | None:
    """The note of a line; None where there is none, or one that only a newer samebits knows.

    What should be known and cannot be read is no less than something unseen.
    """
    content = None
    with suppress(ValueError):
        content = parsed(line)
    name = content.get("note") if isinstance(content, dict) else None
    kind = _NOTES.get(str(name))
    try:
        return None if kind is None else from_data(kind, content)
    except ValueError as error:
        return Unseen(f"what a process noted as {name!r}, which cannot be read: {error}")
