"""Shows on a terminal, while a check is running, what each run is for and how far it is."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from samebits.base.printable import printable
from samebits.checking.pool import Watch
from samebits.launch.process import Outcome
from samebits.runfolder.spec import RunSpec

if TYPE_CHECKING:
    from rich.live import Live


@contextmanager
def progress() -> Iterator[Watch | None]:
    """Give a function to call with news of runs, which it draws on stderr; None where stderr is no terminal."""
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
    """Give a function to call with what is going on, which it shows in one line on stderr, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update


class _Board:
    def __init__(self, live: Live) -> None:
        self.live = live
        self.running: dict[int, tuple[RunSpec, Path, float]] = {}
        self.done: list[str] = []
        self.whole: int | None = None

    def show(self, number: int, plan: RunSpec, outcome: Outcome | None, path: Path) -> None:
        if outcome is not None:
            self.running.pop(number, None)
            self.done.append(f"  run {number:<3} {plan.role}  {outcome.wall_seconds:.1f} s")
            if outcome.succeeded and not outcome.stopped:
                self.whole = steps_done(path)
        elif number not in self.running or not path.exists():  # the run begins, or begins again
            self.running[number] = (plan, path, time.monotonic())
        lines = [*self.done[-4:], *(self._line(number) for number in sorted(self.running))]
        from rich.text import Text

        self.live.update(Text(printable("\n".join(lines))))

    def _line(self, number: int) -> str:
        plan, path, start = self.running[number]
        last = self.whole if plan.stop_after is None else plan.stop_after + 1
        return f"> run {number:<3} {plan.role}  {progress_words(steps_done(path), last, time.monotonic() - start)}"


def progress_words(step: int | None, last: int | None, seconds: float) -> str:
    """Tell how far a run is: `step 120 of 3000, 12 s, 290 s left`, or less where the last step is not known."""
    if not step:
        return f"starting, {seconds:.0f} s"
    if last is None:
        return f"step {step}, {seconds:.0f} s"
    left = f", {seconds / step * (last - step):.0f} s left" if step < last else ""
    return f"step {step} of {last}, {seconds:.0f} s{left}"


def steps_done(path: Path) -> int | None:
    """Return how many steps a run has done, read without a lock that the run would wait for; None before the first."""
    try:
        source = f"file:{quote(str(path / 'recording.sqlite'))}?mode=ro&nolock=1"
        with contextlib.closing(sqlite3.connect(source, uri=True)) as db:
            (step,) = db.execute("SELECT MAX(step) FROM steps WHERE kind='step'").fetchone()
    except sqlite3.Error:
        return None
    return None if step is None else int(step) + 1
