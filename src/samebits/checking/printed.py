"""What runs printed: not compared, since logs hold times; but where more than times differs, it is worth a note."""

from __future__ import annotations

import re
from itertools import zip_longest
from pathlib import Path

from samebits.base.versions import without_version

# Nothing longer is read: a progress bar can fill a disk.
MOST_BYTES = 1 << 20
MOST_SHOWN = 60
# Times, dates, speeds, durations, process ids, addresses, and paths of temporary folders.
_OF_THE_DAY = re.compile(
    r"(\d+(\.\d+)?|\?)\s*(s|sec|secs|seconds?|ms|us|µs|ns|min|minutes?|h|hours?|it/s|s/it|steps?/s|samples?/s|[kKMG]?i?B(/s)?)\b"
    r"|\d{1,4}[-:/]\d{1,2}([-:/]\d{1,4})?([T ]?\d{1,2}:\d{2}(:\d{2})?)?([.,]\d+)?"
    r"|[\d.]+\s*it/$|0x[0-9a-fA-F]+|\b\w*(runtime|per_second)\W+[\d.e+-]+|/tmp/\S+|\b[Tt]ime\w*\W+[\d.e+-]+|\bpid\W+\d+"
)
# Colours, movements of the cursor (ECMA-48), and bars, which are as long as the figures beside them leave room.
_DRAWN = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[━╸╺█▉▊▋▌▍▎▏]+")


def first_difference(a: Path, b: Path) -> tuple[int, str, str] | None:
    """Number of the first line that differs, counted from 1, and both; None where only times differ."""
    for number, (left, right) in enumerate(zip_longest(_lines(a), _lines(b), fillvalue=""), 1):
        if left != right and _lasting(left) != _lasting(right):
            return number, left[:MOST_SHOWN], right[:MOST_SHOWN]
    return None


def _lasting(line: str) -> str:
    # A bar that gets shorter is filled up with spaces, before whatever moves the cursor.
    return "".join(_OF_THE_DAY.sub("", without_version(_DRAWN.sub("", line))).split())


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return []
    # A progress bar writes over itself, more often in a slower run: what stands there in the end counts.
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip("\n").split("\n")]
