"""The code of a run: the content of its files when it was locked, and what has changed in them since.

A file's content is known by the name that git gives it, so content that was locked before a commit is found after it.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import subprocess
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

# At most this many files are listed by name; further ones are listed as one.
MOST_NAMED = 12
# How many of the 40 digits of git's name are kept: git finds a content by the first ones.
_DIGITS = 12
_GIT_SECONDS = 20.0


@dataclass(frozen=True)
class Code:
    """The user's code as it was when a run was made.

    Attributes:
        files: path, relative to the current folder → git's name of its content.
        commit: the commit that is checked out; empty without git.
        uncommitted: those files that differ from the commit.
    """

    files: Mapping[str, str]
    commit: str = ""
    uncommitted: tuple[str, ...] = ()


@dataclass(frozen=True)
class CodeChange:
    """A file of the code that has changed.

    Attributes:
        path: its path, relative to the current folder; for many files listed as one, their number, in brackets.
        how: what happened to it.
        line: the first line that has changed, counted from 1; None where the old content cannot be found.
        lines: how many of its lines have changed; None where that is not known.
    """

    path: str
    how: Literal["changed", "added", "removed"]
    line: int | None = None
    lines: int | None = None


def code_of(paths: Iterable[str], folder: Path) -> Code:
    """Return the code in these files (absolute paths) as it is now, with paths relative to `folder`, the current one.

    Files outside of the project are left out, because their place differs from machine to machine.
    """
    root = Path(_git(folder, "rev-parse", "--show-toplevel").strip() or folder).resolve()
    inside = sorted({os.path.relpath(path, folder) for path in paths if Path(path).resolve().is_relative_to(root)})
    names = {path: found for path in inside if (found := _name_of(folder / path))}
    commit = _git(folder, "rev-parse", "HEAD").strip()
    uncommitted = _uncommitted(folder, root, names) if commit and names else []
    return Code(_at_most_named(names), commit, tuple(uncommitted[:MOST_NAMED]))


def files_in(command: Iterable[str]) -> list[str]:
    """Return the files that a command names, as absolute paths: its script and its configuration."""
    words = (part for word in command for part in (word, word.partition("=")[2]) if part)
    return [os.path.abspath(word) for word in words if os.path.isfile(word)]


def changes_since(before: Mapping[str, str], now: Mapping[str, str], folder: Path) -> tuple[CodeChange, ...]:
    """Return what has changed between two `Code.files`, files with known lines first."""
    changes = [_changed(path, before[path], folder) for path in before if now.get(path, before[path]) != before[path]]
    changes += [CodeChange(path, "removed") for path in before if path not in now]
    changes += [CodeChange(path, "added") for path in now if path not in before]
    return tuple(sorted(changes, key=lambda change: (change.line is None, change.path)))


def _changed(path: str, name: str, folder: Path) -> CodeChange:
    change = CodeChange(path, "changed")
    try:
        old = _git(folder, "cat-file", "blob", name).splitlines()
        new = (folder / path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return change
    parts = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if old else []
    changed = [part for part in parts if part[0] != "equal"]
    if not changed:
        return change
    lines = sum(max(old_end - old_start, new_end - new_start) for _, old_start, old_end, new_start, new_end in changed)
    return replace(change, line=min(changed[0][3] + 1, max(1, len(new))), lines=lines)


def _at_most_named(names: Mapping[str, str]) -> dict[str, str]:
    """Return at most `MOST_NAMED` files, and the rest together under one name."""
    items = sorted(names.items())
    kept, rest = dict(items[:MOST_NAMED]), items[MOST_NAMED:]
    if rest:
        together = hashlib.sha1("".join(f"{path} {name}\n" for path, name in rest).encode(errors="replace"))
        kept[f"({len(rest)} more files)"] = together.hexdigest()[:_DIGITS]
    return kept


def _name_of(path: Path) -> str:
    """Return git's name of the content of a file; empty where the file cannot be read."""
    try:
        content = path.read_bytes()
    except OSError:
        return ""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()[:_DIGITS]


def _uncommitted(folder: Path, root: Path, paths: Collection[str]) -> list[str]:
    status = _git(folder, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", *paths)
    changed = (os.path.relpath(root / entry[3:], os.path.realpath(folder)) for entry in status.split("\0") if entry)
    return sorted(path for path in changed if path in paths)


def _git(folder: Path, *words: str) -> str:
    """Return what git prints; empty where there is no git, no repository, or no such thing in it."""
    # Even asking for the status may write to the index otherwise (git-status(1), "Background refresh").
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_GIT_SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
