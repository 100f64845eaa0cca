"""Mounts of a run's own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.workspace import enter
from samebits.workspace.workspace import can_mount

READ_ONLY = """
import os, sys
from samebits.workspace.enter import mount, unshare_mounts
unshare_mounts()
data, disk, shown = sys.argv[1:]
mount(disk, data + "/a disk", False)
mount(data, shown, True)
for name in ("x", "a disk/y"):
    try:
        open(os.path.join(shown, name), "a").write("changed")
    except OSError as error:
        print(os.path.basename(name), error.strerror)
open(data + "/a disk/z", "w").close()
"""


@pytest.mark.skipif(not can_mount(), reason="this system lets no process have mounts of its own")
def test_what_is_mounted_in_a_read_only_folder_is_read_only_too(tmp_path: Path) -> None:
    """A volume of a container, a second disk: below the folder of the user's; the original stays as it is."""
    data, disk, shown = (tmp_path / name for name in ("data", "disk", "shown"))
    for path in (data / "a disk", disk, shown):
        path.mkdir(parents=True)
    (data / "x").touch()
    (disk / "y").touch()
    words = [sys.executable, "-c", READ_ONLY, *map(str, (data, disk, shown))]
    done = subprocess.run(words, capture_output=True, text=True, check=True)

    refused = os.strerror(30)
    assert done.stdout.splitlines() == [f"x {refused}", f"y {refused}"]
    assert sorted(path.name for path in disk.iterdir()) == ["y", "z"]
    assert (disk / "y").read_bytes() == b""
    assert not any("shown" in point for point in enter._mounts_in(str(tmp_path)))
