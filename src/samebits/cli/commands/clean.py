"""`samebits clean`: remove old checks and runs."""

from __future__ import annotations

import os
from pathlib import Path

import click

from samebits.base.errors import RecordingError, StorageError, UsageError
from samebits.cli import options
from samebits.report.rows import counted
from samebits.runfolder.folder import HOME, oldest_in
from samebits.runfolder.removal import remove
from samebits.workspace.workspace import clear, clear_others


@click.command()
@click.option("--keep", type=int, metavar="N", help="Keep the newest N folders (default 0).")
@click.option("--older-than", type=float, metavar="DAYS", help="Remove only folders older than DAYS days.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
def command(keep: int | None, older_than: float | None, dry_run: bool) -> None:
    """Remove checks, measurements and runs under .samebits/ here, and say how much room that made.

    \b
    samebits clean --keep 3
    samebits clean --older-than 7
    samebits clean --dry-run

    Folders that are being written stay, and so do folders made with --out. Without this command the newest 20 folders
    stay; `keep` in [tool.samebits] says how many.
    """
    for name, value in (("--keep", keep), ("--older-than", older_than)):
        if value is not None and value < 0:
            raise UsageError(f"{name} must be at least 0, got {value:g}")
    home = Path(HOME)
    if not home.is_dir():
        raise RecordingError(f"there is no {HOME}/ here", "change into the folder in which the checks were made")
    if not dry_run:
        clear_others(home)
    old = oldest_in(home, keep or 0, older_than or 0.0)
    freed = sum(_removed(path, dry_run) for path in old)
    would = "would be " if dry_run else ""
    options.answer(
        "\n".join(
            [f"{counted(len(old), 'folder')} {would}removed, {freed / 2**20:.1f} MiB {would}freed", *map(str, old)]
        )
    )


def _removed(path: Path, dry_run: bool) -> int:
    """Return how many bytes a folder takes, and remove it, except in a dry run."""
    size = sum(_size(Path(folder, name)) for folder, _, names in os.walk(path) for name in names)
    if not dry_run:
        clear(path)
        remove(path)
        if path.exists():
            raise StorageError(f"cannot remove {path}", "check its owner and permissions")
    return size


def _size(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512
    except OSError:
        return 0
