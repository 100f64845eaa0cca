"""Where one run happens: in which folder it starts, and which folder is its own.

`{run}` in a command stands for a folder of the run's own. A run starts in the user's working folder, or in a copy of
it; then every path that leads into the working folder leads into the copy, and places in the code are reported as if it
did not.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from samebits.base.records import from_data
from samebits.runfolder.reading import read_json

# Beside `plan.json`; for what runs inside.
PLACE = "place.json"
# The run's own folder, in its run folder.
FILES = "files"
# Hydra's `${run}` is somebody else's word, and `{{run}}` is how one writes the braces themselves.
_RUN = re.compile(r"\{\{run\}\}|(?<![{$])\{run\}(?!\})")


@dataclass(frozen=True)
class Place:
    """Where one run happens.

    Attributes:
        folder: the user's working folder.
        files: the run's own folder, for which `{run}` stands.
        copy: of the working folder, in which the run starts; empty where it starts in the folder itself.
        ledger: where is kept what runs found before they changed it; empty where nothing is.
        is_guest: another run is going on in the same folder; this one ends before it changes anything there.
    """

    folder: str
    files: str
    copy: str = ""
    ledger: str = ""
    is_guest: bool = False

    @property
    def start(self) -> str:
        """The folder in which the command is started."""
        return self.copy or self.folder

    def words(self, argv: Sequence[str]) -> list[str]:
        """The command as it is started here."""
        program, *rest = argv
        # A virtual environment is not copied, and knows its own place.
        is_installed = os.path.exists(os.path.join(os.path.dirname(program), os.pardir, "pyvenv.cfg"))
        led = [program if is_installed else self.led(program), *map(self._led_into_the_copy, rest)]
        # Last: the run's own folder lies in the working folder as a rule, and leads into no copy.
        return with_run_folder(led, self.files)

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The user's variables, those that say where Python and the shell look led into the copy."""
        found = dict(environ)
        if self.copy:
            for name in ("PYTHONPATH", "PWD"):
                if name in found:
                    found[name] = os.pathsep.join(map(self.led, found[name].split(os.pathsep)))
        return found

    def led(self, path: str) -> str:
        """A path into the working folder as one into the copy; any other as it is."""
        # The copy may itself lie in the folder.
        if not self.copy or not _is_in(path, self.folder) or _is_in(path, self.copy):
            return path
        return self.copy + path[len(self.folder) :]

    def write(self, run_folder: Path) -> None:
        (run_folder / PLACE).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    def _led_into_the_copy(self, word: str) -> str:
        # A path may be a word by itself, or follow an option: --data=/home/me/project/data
        option, equals, value = word.partition("=")
        if equals and not _is_in(word, self.folder):
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


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
