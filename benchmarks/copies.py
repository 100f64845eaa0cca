"""What a copy of the working folder costs: seconds and bytes for each run, with mounts and without.

python benchmarks/copies.py              # some minutes and a million files in the folder for temporary files
python benchmarks/copies.py --files 1000 # smaller
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from samebits.runfolder.spec import RunSpec
from samebits.workspace import workspace
from samebits.workspace.workspace import WITHOUT_MOUNTS, Workspace, shown_bytes


def small(folder: Path, count: int) -> None:
    """Files of 3 kB, a hundred in a folder."""
    for number in range(count):
        path = folder / f"{number // 100}"
        path.mkdir(exist_ok=True)
        (path / f"{number}.txt").write_bytes(b"x" * 3_000)


def data(folder: Path, count: int) -> None:
    """A data set of empty files in one folder, and some code."""
    small(folder, 100)
    (folder / "data").mkdir()
    for number in range(count):
        os.close(os.open(folder / "data" / f"{number}.jpg", os.O_CREAT | os.O_WRONLY))


def sparse(folder: Path, _: int) -> None:
    """One file of 50 GB that holds nothing, and some code."""
    small(folder, 100)
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(50 * 10**9)


def measured(folder: Path, make: Callable[[Path, int], None], count: int, pairs: int) -> None:
    make(folder, count)
    os.chdir(folder)
    for mode in ("mounts", "no mounts"):
        os.environ.pop(WITHOUT_MOUNTS, None)
        if mode == "no mounts":
            os.environ[WITHOUT_MOUNTS] = "1"
        workspace.can_mount.cache_clear()
        if mode == "mounts" and not workspace.can_mount():
            print(f"  {mode:<10} this system allows none")
            continue
        home = folder / ".samebits" / "20260101-000000-1"
        home.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        space = Workspace(home)
        once = time.perf_counter() - start
        seconds, taken = [], 0
        for _ in range(pairs):
            start = time.perf_counter()
            with space.place_for(RunSpec()) as place:
                seconds.append(time.perf_counter() - start)
                used = subprocess.run(["du", "-s", "-B1", place.copy], capture_output=True, text=True, check=True)
                taken = int(used.stdout.split()[0])
                start = time.perf_counter()
            seconds[-1] += time.perf_counter() - start
        shown = f"{space.survey.files} files copied, {len(space.survey.linked)} linked, {len(space.survey.whole)} shown"
        print(f"  {mode:<10} found {once:.2f} s; each run {min(seconds):.2f} s, {shown_bytes(taken)} on disk; {shown}")
        space.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=3)
    asked = parser.parse_args()
    for name, make, count in (
        ("10,000 small files", small, 10_000),
        (f"{asked.files:,} files in data/", data, asked.files),
        ("50 GB sparse", sparse, 0),
    ):
        print(name)
        with tempfile.TemporaryDirectory() as folder:
            measured(Path(folder), make, count, asked.pairs)
            os.chdir("/")


if __name__ == "__main__":
    main()
