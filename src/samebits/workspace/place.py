"""Place: where one run happens, and what a path is called there and in the user's own folder.

`{run}` in a command stands for a folder of the run's own. A run that begins in a copy of the working folder sees that
copy at the very path of the original where the system lets it have mounts of its own; elsewhere it sees another path,
and every path that leads into the working folder leads into the copy.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, get_args

from samebits.base.records import from_data
from samebits.runfolder.reading import read_json

# Whether a run begins in a copy of the working folder, or in the folder itself.
Isolation = Literal["copy", "none"]
ISOLATIONS = get_args(Isolation)
# Beside `plan.json`; for what runs inside.
PLACE = "place.json"
# The run's own folder, in its run folder.
FILES = "files"
# Hydra's `${run}` is somebody else's word, and `{{run}}` is how one writes the braces themselves.
_RUN = re.compile(r"\{\{run\}\}|(?<![{$])\{run\}(?!\})")
# What a virtual environment of Python's or conda's holds: it is not copied, since its own scripts name it by its path.
ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")


@dataclass(frozen=True)
class Place:
    """Where one run happens.

    Attributes:
        folder: the user's working folder.
        files: the run's own folder, for which `{run}` stands, as the run sees it.
        copy: of the working folder, in which the run begins; empty where it begins in the folder itself.
        root: with a copy, but no mounts: what stands before every path that leads into the copy, or beside it.
        home: where the folder for all runs lies.
        seen_home: the same, as the run sees it.
        temporary: folder for temporary files, as the run sees it; empty for the user's own.
        links: prefixes → the user's paths: links in the copy lead there, to what is too large to be copied.
        shared: of the user's paths, those that are shown as they are, because `--share` names them.
        work: where copy and files lie; empty where the run has no place of its own.
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
        """The run's own folder, as it is called outside."""
        return Path(self.work, FILES) if self.work else Path(self.files)

    @property
    def start(self) -> str:
        """The folder in which the run begins, as it sees it."""
        return self.root + self.folder

    def words(self, argv: Sequence[str]) -> list[str]:
        """The command as it is started here."""
        program, *rest = argv
        led = [self._led_value(program), *map(self._led_word, rest)]
        # Last: the run's own folder leads into no copy.
        return with_run_folder(led, self.files)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The user's variables, with paths into the folder led into the copy."""
        found = {name: self._led_value(value) if self.root else value for name, value in environ.items()}
        return found | ({"TMPDIR": self.temporary} if self.temporary else {})

    def led(self, path: str) -> str:
        """A path into the working folder as one into the copy; any other as it is."""
        is_led = self.root and is_in(path, self.folder) and not is_in(path, self.home)
        return self.root + path if is_led else path

    def _led_value(self, value: str) -> str:
        """One path or several: those that lead into the folder, but not into an environment in it."""
        paths = value.split(os.pathsep)
        # A host may stand before a path, too.
        if not all(not path or os.path.isabs(path) or os.path.exists(path) for path in paths):
            return value
        return os.pathsep.join(path if self._is_in_environment(path) else self.led(path) for path in paths)

    def _is_in_environment(self, path: str) -> bool:
        while is_in(path, self.folder) and path != self.folder:
            if any(os.path.exists(os.path.join(path, name)) for name in ENVIRONMENTS):
                return True
            path = os.path.dirname(path)
        return False

    def value_of(self, value: str) -> str:
        """What the user's variable holds that a run sees: one path or several, or anything else."""
        return os.pathsep.join(map(self.home_of, value.split(os.pathsep))) if self.root else value

    def home_of(self, path: str) -> str:
        """What the user calls a path that the run sees."""
        if self.root and is_in(path, self.root):
            return path[len(self.root) :] or os.sep
        for prefix, own in (*self.links.items(), (self.seen_home, self.home)):
            if prefix and is_in(path, prefix):
                return own + path[len(prefix) :]
        return path

    def is_shared(self, path: str) -> bool:
        """Whether what the user calls so is shown to all runs as it is."""
        return any(is_in(path, one) for one in self.shared)

    def seen(self, path: str) -> str:
        """How the run sees a path in the folder for all runs; any other as it is."""
        return self.seen_home + path[len(self.home) :] if self.seen_home and is_in(path, self.home) else path

    def outside(self, path: str) -> str:
        """Where a path that the run sees is to be found from outside, as long as its place is there."""
        for seen, own in ((self.files, str(self.own_files)), (self.start, self.copy or self.folder)):
            if is_in(path, seen):
                return own + path[len(seen) :]
        return path

    def write(self, run_folder: Path) -> None:
        (run_folder / PLACE).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    def _led_word(self, word: str) -> str:
        # A path may be a word by itself, or follow an option: --data=/home/me/project/data
        option, equals, value = word.partition("=")
        if equals and not is_in(word, self.folder):
            return f"{option}={self.led(value)}"
        return self.led(word)


def read_place(run_folder: Path) -> Place | None:
    """The place that `Place.write` wrote; None for a run that has none."""
    try:
        return from_data(Place, read_json(run_folder / PLACE, run_folder))
    except (OSError, ValueError):
        return None


def asks_for_run_folder(argv: Sequence[str]) -> bool:
    """Whether `{run}` stands anywhere in the command."""
    return any(match[0] == "{run}" for word in argv for match in _RUN.finditer(word))


def with_run_folder(argv: Sequence[str], folder: str) -> list[str]:
    """The command with `{run}` replaced.

    >>> with_run_folder(["train.py", "--out={run}/last.pt", "{}", "${run}", "{{run}}"], "/runs/1")
    ['train.py', '--out=/runs/1/last.pt', '{}', '${run}', '{run}']
    """
    return [_RUN.sub(lambda match: folder if match[0] == "{run}" else "{run}", word) for word in argv]


def is_in(path: str, folder: str) -> bool:
    """Whether a path is a folder, or leads into it."""
    return bool(folder) and (path == folder or path.startswith(folder.rstrip(os.sep) + os.sep))
