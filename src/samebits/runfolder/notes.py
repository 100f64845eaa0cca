"""What each process of a run noted besides its recording: one JSON line per note, appended at once.

A journal needs no closing and no lock: each process has its own file, and a half-written last line is left out by the
reader.
Notes: `start`, `observed`, `witness`, `seed`, `left`, `unseen`, `files`, `overridden`, `used`, `refused`, `error`,
`end`.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Journal:
    """Appends notes of this process to a file of its own; a forked child goes on in another file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path: Path | None = None
        self._pid = 0
        self._waiting = b""

    def note(self, sort: str, /, **content: Any) -> None:
        """Append one line. A full disk must not end the user's run: the note then waits for the next one."""
        path = self._own_path()
        self._waiting += json.dumps({"note": sort, **content}).encode() + b"\n"
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                while self._waiting:
                    self._waiting = self._waiting[os.write(handle, self._waiting) :]
            finally:
                os.close(handle)
        except OSError:
            return

    def _own_path(self) -> Path:
        if self._path is None or self._pid != os.getpid():
            self._pid, self._waiting = os.getpid(), b""
            self._path = self.folder / f"journal.{platform.node()}.{self._pid}.jsonl"
        return self._path


def read_notes(folder: Path, sort: str | None = None) -> Iterator[dict[str, Any]]:
    """The notes of all processes of a run, process by process; `sort` chooses one sort."""
    for notes in read_processes(folder):
        yield from (note for note in notes if sort in (None, note["note"]))


def read_processes(folder: Path) -> Iterator[list[dict[str, Any]]]:
    """The notes of each process of a run."""
    for path in sorted(folder.glob("journal.*.jsonl"), key=lambda p: (p.stat().st_mtime_ns, p.name)):
        parsed = (_parsed(line) for line in path.read_bytes().split(b"\n")[:-1])
        yield [note for note in parsed if note is not None]


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        note = json.loads(line)
    except ValueError:
        return None
    return note if isinstance(note, dict) and "note" in note else None
