"""Place: where one run happens, and how paths there translate into paths of the user's own folder, and back.

`{run}` in a command stands for a folder of the run's own. A run that begins in a copy of the working folder sees that
copy at the path of the original, where the system lets the run have mounts of its own. Elsewhere the copy has another
path, and every path that leads into the working folder is redirected into the copy.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, get_args

from samebits.base.records import from_data
from samebits.runfolder.reading import read_json

# Whether a run begins in a copy of the working folder, or in the folder itself.
Isolation = Literal["copy", "none"]
ISOLATIONS = get_args(Isolation)
# The file with the place, next to `plan.json`, for the code that runs inside.
PLACE = "place.json"
# The name of the run's own folder in its run folder.
FILES = "files"
# `${run}` belongs to Hydra, and `{{run}}` stands for the text `{run}` itself.
_RUN = re.compile(r"\{\{run\}\}|(?<![{$])\{run\}(?!\})")
# Entries that mark a virtual environment of Python or conda: it is not copied, since its scripts name it by its path.
ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")


@dataclass(frozen=True)
class Place:
    """Where one run happens.

    Attributes:
        folder: the user's working folder.
        files: the run's own folder, for which `{run}` stands, as the run sees it.
        copy: the copy of the working folder in which the run begins; empty where it begins in the folder itself.
        root: for a copy without mounts: the prefix of every path that leads into the copy or next to it; else empty.
        home: the folder for all runs.
        seen_home: path of `home`, as the run sees it.
        temporary: folder for temporary files, as the run sees it; empty for the user's own.
        links: prefixes of paths to which links in the copy lead, for what is too large to be copied → the user's paths.
        shared: the user's paths that runs use in place, without a copy, because `--share` names them.
        work: the folder with copy and files; empty where the run has no place of its own.
    """

    folder: str
    files: str
    copy: str = ""
    root: str = ""
    home: str = ""
    seen_home: str = ""
    temporary: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    work: str = ""

    @property
    def own_files(self) -> Path:
        """The path of the run's own folder outside the run."""
        return Path(self.work, FILES) if self.work else Path(self.files)

    @property
    def start(self) -> str:
        """The folder in which the run begins, as the run sees it."""
        return self.root + self.folder

    def words(self, argv: Sequence[str]) -> list[str]:
        """Return the command as it is started here."""
        program, *rest = argv
        redirected = [self._led_value(program), *map(self._led_word, rest)]
        # Last: the path of the run's own folder must not be redirected.
        return with_run_folder(redirected, self.files)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the user's variables, with paths into the folder redirected into the copy."""
        variables = {name: self._led_value(value) if self.root else value for name, value in environ.items()}
        return variables | ({"TMPDIR": self.temporary} if self.temporary else {})

    def redirect(self, path: str) -> str:
        """Redirect a path into the working folder into the copy; return any other path unchanged."""
        is_led = self.root and is_in(path, self.folder) and not is_in(path, self.home)
        return self.root + path if is_led else path

    def _led_value(self, value: str) -> str:
        """Redirect one path or several, where they lead into the folder, but not into an environment in it."""
        paths = value.split(os.pathsep)
        # A value such as HOST:PATH is no list of paths.
        if not all(not path or os.path.isabs(path) or os.path.exists(path) for path in paths):
            return value
        return os.pathsep.join(path if self._is_in_environment(path) else self.redirect(path) for path in paths)

    def _is_in_environment(self, path: str) -> bool:
        while is_in(path, self.folder) and path != self.folder:
            if any(os.path.exists(os.path.join(path, name)) for name in ENVIRONMENTS):
                return True
            path = os.path.dirname(path)
        return False

    def user_value(self, value: str) -> str:
        """Return the value of a variable that the run sees, with each path in it as the user calls it."""
        return os.pathsep.join(map(self.user_path, value.split(os.pathsep))) if self.root else value

    def user_path(self, path: str) -> str:
        """Return the user's own path for a path that the run sees."""
        if self.root and is_in(path, self.root):
            return path[len(self.root) :] or os.sep
        for prefix, replacement in (*self.links.items(), (self.seen_home, self.home)):
            if prefix and is_in(path, prefix):
                return replacement + path[len(prefix) :]
        return path

    def is_shared(self, path: str) -> bool:
        """Whether all runs use this path of the user's in place, without a copy."""
        return any(is_in(path, shared) for shared in self.shared)

    def path_inside(self, path: str) -> str:
        """Return the path at which the run sees a path in the folder for all runs; any other path unchanged."""
        return self.seen_home + path[len(self.home) :] if self.seen_home and is_in(path, self.home) else path

    def path_outside(self, path: str) -> str:
        """Return where a path that the run sees lies outside the run, while the place of the run exists."""
        if self.is_shared(self.user_path(path)):
            return self.user_path(path)
        for inner, outer in ((self.files, str(self.own_files)), (self.start, self.copy or self.folder)):
            if is_in(path, inner):
                return outer + path[len(inner) :]
        return path

    def write(self, run_folder: Path) -> None:
        (run_folder / PLACE).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    def _led_word(self, word: str) -> str:
        # A path may be a word by itself, or follow an option: --data=/home/me/project/data
        option, equals, value = word.partition("=")
        if equals and not is_in(word, self.folder):
            return f"{option}={self.redirect(value)}"
        return self.redirect(word)


def read_place(run_folder: Path) -> Place | None:
    """Read the place that `Place.write` wrote; None for a run without one."""
    try:
        return from_data(Place, read_json(run_folder / PLACE, run_folder))
    except (OSError, ValueError):
        return None


def asks_for_run_folder(argv: Sequence[str]) -> bool:
    """Whether `{run}` stands anywhere in the command."""
    return any(match[0] == "{run}" for word in argv for match in _RUN.finditer(word))


def with_run_folder(argv: Sequence[str], folder: str) -> list[str]:
    """Return the command with `{run}` replaced by a folder.

    >>> with_run_folder(["train.py", "--out={run}/last.pt", "{}", "${run}", "{{run}}"], "/runs/1")
    ['train.py', '--out=/runs/1/last.pt', '{}', '${run}', '{run}']
    """
    return [_RUN.sub(lambda match: folder if match[0] == "{run}" else "{run}", word) for word in argv]


def is_named(path: str, pattern: str, folder: str) -> bool:
    """Whether a pattern, in which `*` matches anything, names a path or a folder above it, seen from a folder.

    >>> is_named("/me/p/runs/1/log.txt", "runs/", "/me/p"), is_named("{run}/a.csv", "{run}/*.csv", "/me/p")
    (True, True)
    """
    pattern = os.path.normpath(pattern)
    names = (path, os.path.relpath(path, folder)) if os.path.isabs(path) else (path,)
    return any(fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}{os.sep}*") for name in names)


def is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder itself, or lies in it."""
    return bool(folder) and (path == folder or path.startswith(folder.rstrip(os.sep) + os.sep))
