"""What is shown on a terminal while a check is running: which run, which step, how long. Nothing elsewhere."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from samebits.checking.pool import Watch
from samebits.launch.process import Outcome
from samebits.runfolder.plan import RunPlan


@contextmanager
def progress() -> Iterator[Watch | None]:
    """A function that is called about runs; draws on stderr when that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    with Live(console=console, transient=True, refresh_per_second=8) as live:
        yield _Board(live).show


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """A function that is called with what is going on; one line on stderr when that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update


class _Board:
    def __init__(self, live: Any) -> None:
        self.live = live
        self.running: dict[int, tuple[RunPlan, Path, float]] = {}
        self.done: list[str] = []

    def show(self, number: int, plan: RunPlan, outcome: Outcome | None, path: Path) -> None:
        if outcome is not None:
            self.running.pop(number, None)
            self.done.append(f"  run {number:<3} {plan.role}: {outcome.wall_seconds:.1f} s")
        else:
            self.running.setdefault(number, (plan, path, time.monotonic()))
        lines = [*self.done[-4:], *(self._line(number) for number in sorted(self.running))]
        from rich.text import Text

        self.live.update(Text("\n".join(lines)))

    def _line(self, number: int) -> str:
        plan, path, start = self.running[number]
        return f"> run {number:<3} {plan.role}: {_step(path)}, {time.monotonic() - start:.1f} s"


def _step(path: Path) -> str:
    """How far a run is, read without taking a lock that the run would have to wait for."""
    try:
        source = f"file:{quote(str(path / 'recording.sqlite'))}?mode=ro&nolock=1"
        with contextlib.closing(sqlite3.connect(source, uri=True)) as db:
            (step,) = db.execute("SELECT MAX(step) FROM steps").fetchone()
    except sqlite3.Error:
        return "starting"
    return "starting" if step is None else f"step {step}"
