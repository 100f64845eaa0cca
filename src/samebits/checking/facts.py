"""The facts about one run on which decisions rest, read from the notes of its processes."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

from samebits.base.sites import Site, is_own_file, is_user_file
from samebits.factors.catalog import CATALOG, find
from samebits.factors.context import SiteKey
from samebits.runfolder.notes import (
    AnyNote,
    Carried,
    Files,
    Note,
    Observed,
    Outside,
    Reached,
    Refused,
    Replaced,
    Seeded,
    Started,
    SteppedShared,
    Used,
    Witnessed,
    Wrote,
    read_processes,
)
from samebits.workspace.place import is_in, read_place

LAST_LINES = 8
_Dated: TypeAlias = tuple[tuple[str, float], ...]
# How a line of a traceback that names a file begins.
_FRAME = '  File "'
# Kind → what names it in the code, where nothing tells that it was asked for.
_NAMED = {
    "time": re.compile(r"\b(getmtime|getctime|getatime|st_[mca]time(_ns)?)\b"),
    "address": re.compile(r"(?<![\w.])id(?=\()"),
}


@dataclass(frozen=True)
class Entry:
    """A line of the user's at which a factor entered, the first time.

    Attributes:
        what: the function that was called.
        site: the line.
        source: the text of the line as it was when it ran.
        script: the path of the script that the process ran; empty where that is no file of the user's.
    """

    what: str
    site: Site = field(metadata={"key": "location"})
    source: str = ""
    script: str = ""


@dataclass(frozen=True)
class Shown:
    """A line that shows how a factor enters at another one: a transform that draws, for the loader that fetches.

    Attributes:
        what: what happens there.
        fix: what to change there, where pinning the factor does not help.
    """

    what: str
    site: Site = field(metadata={"key": "location"})
    fix: str = ""


@dataclass(frozen=True)
class Facts:
    """The facts that a run noted, in the order of time.

    Attributes:
        entries: factor → the lines at which it entered.
        in_libraries: factors that entered from a library with no line of the user's; some enter on such lines, too.
        shown: factor and line → the lines that show how it enters there.
        refusal: why a pin stopped the program, as a clause; empty where none did.
        stderr_tail: the last lines of its standard error.
        interpreter: the Python that ran it, in words.
        used: which of the things that some factors need the program used; None where it ended before that was noted.
        read_lines: factor → lines at which it may enter, found by reading the user's code.
        unread: why the user's code could not be read for them, as a sentence; empty where it could.
        script: path of the script that ran; empty where that is no file of the user's.
        files: the user's own files that were imported.
        seeds: every call that seeded a generator.
        late_seeds: factor → the line that seeded its generator after the same process had drawn from it.
        early_seeds: factor → lines that had seeded any generator before the same process drew from this one.
        carried: paths that it asked for and wrote later: the next run may find them.
        reached: files, ports and shared memory that it met outside its copy of the folder.
        outside: files that it read, programs that it started, timers that it set, and times of files and addresses that
            its code names, which nothing holds still.
        wrote: path → the line that wrote it first.
        commands: the commands that its processes were started with.
        races: lines at which several processes step on parameters that they share.
        replaced: the first operation of torch that a formula of ours computed; empty where none did.
    """

    entries: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    in_libraries: frozenset[str] = frozenset()
    shown: Mapping[tuple[str, SiteKey], tuple[Shown, ...]] = field(default_factory=dict)
    refusal: str = ""
    stderr_tail: tuple[str, ...] = ()
    interpreter: str = "the command's Python"
    used: frozenset[str] | None = None
    read_lines: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)
    unread: str = ""
    script: str = ""
    files: tuple[str, ...] = ()
    seeds: tuple[Seeded, ...] = ()
    late_seeds: Mapping[str, Site] = field(default_factory=dict)
    early_seeds: Mapping[str, tuple[Site, ...]] = field(default_factory=dict)
    carried: tuple[Carried, ...] = ()
    reached: tuple[Reached, ...] = ()
    outside: tuple[Outside, ...] = ()
    wrote: Mapping[str, Site] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    races: tuple[Site, ...] = ()
    replaced: str = ""

    @property
    def last_words(self) -> str:
        return self.stderr_tail[-1].strip() if self.stderr_tail else ""

    def has_use_for(self, name: str) -> bool:
        """Whether a factor can have mattered: the program used all that the factor needs, or that is not known."""
        # Whether a loader fetches is not noted: a program that asks for data-workers has one.
        return self.used is None or self.used.issuperset({*find(name).needs} - {"loader"})


def read_facts(folder: Path, changed: Collection[str] | None = ()) -> Facts:
    """Return the facts of a run, read from its folder.

    Of the paths that it asked for, those count that it wrote or that are in `changed`; all where that is None.
    """
    processes = list(read_processes(folder))
    notes = [note for process in processes for note in process]
    refused = next(_notes_of_kind(Refused, notes), None)
    files = {path for note in _notes_of_kind(Files, notes) for path in note.files}
    witnessed = [(note, _script(process)) for process in processes for note in _notes_of_kind(Witnessed, process)]
    started = list(_notes_of_kind(Started, notes))
    # Nobody typed what follows `-c`: libraries generate it, with the numbers of their pipes.
    typed = (" ".join(note.argv) for note in started if len(note.argv) > 1 and note.argv[1] != "-c")
    dated = _dated(files)
    read_lines, unread = _read_once(dated)
    return Facts(
        entries=_entries(witnessed),
        in_libraries=frozenset(note.factor for note, _ in witnessed if note.site is None),
        shown=_shown(note for note, _ in witnessed),
        refusal="" if refused is None else _refusal(refused),
        stderr_tail=_last_lines(folder),
        interpreter=next((note.executable for note in started), Facts.interpreter),
        used=_used(notes),
        read_lines=read_lines,
        unread=unread,
        script=next((note.script for note in _notes_of_kind(Observed, notes) if note.script), ""),
        files=tuple(sorted(filter(is_user_file, files))),
        seeds=tuple(_notes_of_kind(Seeded, notes)),
        late_seeds={name: site for process in reversed(processes) for name, site in _late(process)},
        early_seeds={name: sites for process in reversed(processes) for name, sites in _early(process)},
        carried=_carried(_notes_of_kind(Carried, notes), changed),
        reached=tuple(_notes_of_kind(Reached, notes)),
        outside=(*_notes_of_kind(Outside, notes), *_named_in_code(dated)),
        wrote={note.path: note.site for note in reversed([*_notes_of_kind(Wrote, notes)]) if note.site is not None},
        commands=tuple(sorted(_as_at_home(folder, command) for command in typed)),
        races=_races(processes),
        replaced=next((note.op for note in _notes_of_kind(Replaced, notes)), ""),
    )


def noted_by_one_run(a: Facts, b: Facts) -> list[str]:
    """Return in words what only one of two runs noted: commands that it started, files and ports that it met.

    >>> noted_by_one_run(Facts(commands=("tool --seed 1",)), Facts(commands=("tool --seed 2",)))
    ['only one run started `tool --seed 1`', 'only one run started `tool --seed 2`']
    """
    words = [
        {
            *(f"started `{command}`" for command in facts.commands),
            *(f"met {note.path}" for note in facts.carried),
            *(f"met {note.what}" for note in facts.reached),
        }
        for facts in (a, b)
    ]
    return [f"only one run {difference}" for difference in sorted(words[0] ^ words[1])]


def _notes_of_kind(kind: type[AnyNote], notes: Iterable[Note]) -> Iterator[AnyNote]:
    return (note for note in notes if isinstance(note, kind))


def _races(processes: Iterable[Iterable[Note]]) -> tuple[Site, ...]:
    """Return the lines at which several processes step on the same memory, each line once."""
    steps = [list(_notes_of_kind(SteppedShared, process)) for process in processes]
    count = Counter(memory for stepped in steps for memory in {memory for note in stepped for memory in note.memory})
    notes = (note for stepped in steps for note in stepped)
    lines = {note.site.key: note.site for note in notes if any(count[memory] > 1 for memory in note.memory)}
    return tuple(lines[key] for key in sorted(lines))


def _used(notes: Sequence[Note]) -> frozenset[str] | None:
    """Return what the processes used, except any that a signal ended; None if none noted it and torch uses GPUs."""
    noted = [note.what for note in _notes_of_kind(Used, notes)]
    if noted:
        return frozenset(word for what in noted for word in what)
    versions = [note.versions for note in _notes_of_kind(Observed, notes)]
    return None if any(one.get("cuda") or one.get("hip") for one in versions) else frozenset()


def _script(notes: Iterable[Note]) -> str:
    """Return the script that a process ran; empty where that is no file of the user's."""
    # Noted when torch is imported, so that a run ended early has it, too; and again at the end.
    scripts = (note.script for note in notes if isinstance(note, (Observed, Files)))
    return next((script for script in scripts if script), "")


def _entries(witnessed: Iterable[tuple[Witnessed, str]]) -> dict[str, tuple[Entry, ...]]:
    """Return for each factor the lines at which it entered, in the order of time; none where only libraries did so."""
    by_factor: dict[str, dict[SiteKey, Entry]] = {}
    for note, script in witnessed:
        if note.within is not None:
            continue
        entries = by_factor.setdefault(note.factor, {})
        if note.site is not None:
            entries.setdefault(note.site.key, Entry(note.what, note.site, note.site.source, script))
    return {name: tuple(entries.values()) for name, entries in by_factor.items()}


def _shown(witnessed: Iterable[Witnessed]) -> dict[tuple[str, SiteKey], tuple[Shown, ...]]:
    found: dict[tuple[str, SiteKey], set[Shown]] = {}
    for note in witnessed:
        if note.within is not None and note.site is not None:  # each worker notes the same lines
            shown = Shown(note.what, note.site, f"{note.fix} ({note.site.place})" if note.fix else "")
            found.setdefault((note.factor, note.within), set()).add(shown)
    return {key: tuple(sorted(lines, key=lambda one: one.site.key)) for key, lines in found.items()}


def _late(notes: Iterable[Note]) -> Iterator[tuple[str, Site]]:
    """The factors that one process first drew from and then seeded, each with the first line that seeded it."""
    # Factors of the environment were in use before the first line of the program.
    drawn = {factor.name: factor.seeded_by for factor in CATALOG if factor.scope == "environment"}
    for note in notes:
        if isinstance(note, Witnessed):
            drawn.setdefault(note.factor, find(note.factor).seeded_by)
        elif isinstance(note, Seeded):
            for name in [name for name, calls in drawn.items() if note.what in calls]:
                drawn[name] = ()
                yield name, note.site


def _early(notes: Iterable[Note]) -> Iterator[tuple[str, tuple[Site, ...]]]:
    """The factors that one process drew from, each with the lines that had seeded any generator by then."""
    seeds, drawn = list[Site](), set[str]()
    for note in notes:
        if isinstance(note, Seeded):
            seeds.append(note.site)
        elif isinstance(note, Witnessed) and note.factor not in drawn:
            drawn.add(note.factor)
            yield note.factor, tuple(dict.fromkeys(seeds))


def _carried(notes: Iterable[Carried], changed: Collection[str] | None) -> tuple[Carried, ...]:
    """Return each pair of a path asked for and a path written once; notes of a path to be made anew come last.

    A path that this process is not known to have written counts if the run changed it at all.
    """
    found: dict[tuple[str, str], Carried] = {}
    for note in notes:
        key = note.path, note.written
        is_written = changed is None or note.wrote is not None or any(is_in(path, note.path) for path in changed)
        if is_written and (key not in found or found[key].wrote is None):
            found[key] = note
    return tuple(sorted(found.values(), key=lambda note: note.how == "made"))


def _dated(files: Iterable[str]) -> _Dated:
    """Return the user's own files with their times: those that runs share are read once."""
    dated: list[tuple[str, float]] = []
    for path in sorted(filter(is_user_file, files)):
        with suppress(OSError):
            dated.append((path, os.stat(path).st_mtime))
    return tuple(dated)


@cache
def _named_in_code(files: _Dated) -> tuple[Outside, ...]:
    """Return the lines that name the time at which a file was written, or the address of an object."""
    found = list[Outside]()
    for path, _ in files:
        with suppress(OSError):
            for number, line in enumerate(Path(path).read_text(errors="replace").splitlines(), 1):
                for kind, pattern in _NAMED.items():
                    found += [Outside(kind, word[0], Site(path, number)) for word in [pattern.search(line)] if word]
    return tuple(found)


@cache
def _read_once(files: _Dated) -> tuple[Mapping[str, tuple[Entry, ...]], str]:
    """Return for each factor the lines at which it may enter, found by reading, and why that failed, if it did."""
    from samebits.lint.hash_order import find_hash_order  # only this function needs the reader of code

    try:
        findings = find_hash_order([path for path, _ in files])
    except Exception as error:  # what was measured is worth more than these lines
        return {}, unread_words(error)
    lines = defaultdict[str, list[Entry]](list)
    for one in findings:
        for name in one.depends_on:
            lines[name].append(Entry(one.reason, Site(one.path, one.line, one.function), one.source))
    return {name: tuple(entries) for name, entries in lines.items()}, ""


def unread_words(error: Exception) -> str:
    """Return in words that reading the user's code failed."""
    why = f"{type(error).__name__}: {error}"
    return f"the code could not be read for lines, which is samebits' mistake ({why}): please report this"


def _refusal(note: Refused) -> str:
    return f'raised "{note.message.splitlines()[0]}", {note.where.removeprefix("samebits: ")}'


def _last_lines(folder: Path) -> tuple[str, ...]:
    """Return the last lines printed on stderr, with paths as in the user's own folder."""
    try:
        text = (folder / "stderr.log").read_text(errors="replace")
    except OSError:
        return ()
    return tuple(_without_ours(_as_at_home(folder, text).strip().splitlines())[-LAST_LINES:])


def _as_at_home(folder: Path, text: str) -> str:
    place = read_place(folder)
    if place is None or not place.copy:
        return text
    return text.replace(place.root or place.seen_home, "" if place.root else place.home)


def _without_ours(lines: list[str]) -> list[str]:
    """Return a traceback without the frames of samebits' hooks; all its lines where it ended in such a frame."""
    frames = [line for line in lines if line.startswith(_FRAME)]
    if not frames or _is_ours(frames[-1]):
        return lines
    kept, skips = [], False
    for line in lines:
        # The lines below a frame that are indented further are its source.
        skips = _is_ours(line) or (skips and line.startswith("    "))
        if not skips:
            kept.append(line)
    return kept


def _is_ours(line: str) -> bool:
    return line.startswith(_FRAME) and is_own_file(line.removeprefix(_FRAME))
