"""What is shown on a terminal while a check is running: what each run is to answer, and how far it is."""

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

from samebits.base.printable import printable
from samebits.checking.pool import Watch
from samebits.launch.process import Outcome
from samebits.runfolder.spec import RunSpec


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
        self.running: dict[int, tuple[RunSpec, Path, float]] = {}
        self.done: list[str] = []
        self.whole: int | None = None

    def show(self, number: int, plan: RunSpec, outcome: Outcome | None, path: Path) -> None:
        if outcome is not None:
            self.running.pop(number, None)
            self.done.append(f"  run {number:<3} {question(plan)}  {outcome.wall_seconds:.1f} s")
            if outcome.succeeded and not outcome.stopped:
                self.whole = steps_done(path)
        elif number not in self.running or not path.exists():  # it is made, or made again
            self.running[number] = (plan, path, time.monotonic())
        lines = [*self.done[-4:], *(self._line(number) for number in sorted(self.running))]
        from rich.text import Text

        self.live.update(Text(printable("\n".join(lines))))

    def _line(self, number: int) -> str:
        plan, path, start = self.running[number]
        last = self.whole if plan.stop_after is None else plan.stop_after + 1
        return f"> run {number:<3} {question(plan)}  {how_far(steps_done(path), last, time.monotonic() - start)}"


def question(plan: RunSpec) -> str:
    """What a run is made to find out."""
    name, _, rest = plan.role.partition(" ")
    if rest.startswith("released at"):
        return f"does {name} enter at {rest.removeprefix('released at ')}?"
    if rest in ("released", "left alone"):
        return f"is it {name}?"
    if rest == "varied":
        return f"does another {name} change it?"
    if plan.begins == "left":
        return "does what an earlier run left change it?"
    return {
        "control": "how does it run if left alone?",
        "control again": "does it do the same again?",
        "fresh copy": "does it do the same in a fresh copy of the folder?",
        "varied": "does it do the same with everything varied that must not matter?",
        "pinned": "does it repeat with everything pinned?",
        "pinned, nothing prepared": "does what was prepared change it?",
        "remedy": "does the remedy hold?",
        "remedy, rest varied": "does the remedy hold with the rest varied?",
        "operations": "which operation is the first to differ?",
        "operations again": "which operation is the first to differ?",
        "operands kept": "what was that operation given?",
        "operands of the other kept": "what was that operation given?",
        "uninterrupted": "how does it train and save if nothing stops it?",
        "uninterrupted again": "does it repeat up to there?",
        "killed": "does it do the same until it is killed?",
        "resumed": "does it go on with the same bits?",
        "resumed, generators given back": "are the generators missing?",
        "resumed, optimizer given back": "is the optimizer's state missing?",
        "here": "what does it do in this environment?",
        "here again": "does it repeat there?",
        "there": "what does it do in the other environment?",
        "there again": "does it repeat there, too?",
        "operations here": "which operations does it do in this environment?",
        "operations there": "which ones in the other?",
        "operands here kept": "what was that operation given?",
        "operands there kept": "and what in the other environment?",
        "lock": "what is to be locked?",
        "lock again": "does it make the same files again?",
        "verify": "does it give what is locked?",
        "verify again": "does it give these other bits every time?",
        "treatments told apart": "which treatment does the script not survive?",
    }.get(plan.role, f"{plan.role}?")


def how_far(step: int | None, last: int | None, seconds: float) -> str:
    """`step 120 of 3000, 12 s, 290 s left`: steps that are done, of how many if that is known."""
    if not step:
        return f"starting, {seconds:.0f} s"
    if last is None:
        return f"step {step}, {seconds:.0f} s"
    left = f", {seconds / step * (last - step):.0f} s left" if step < last else ""
    return f"step {step} of {last}, {seconds:.0f} s{left}"


def steps_done(path: Path) -> int | None:
    """How far a run is, read without taking a lock that the run would have to wait for; None where it has not begun."""
    try:
        source = f"file:{quote(str(path / 'recording.sqlite'))}?mode=ro&nolock=1"
        with contextlib.closing(sqlite3.connect(source, uri=True)) as db:
            (step,) = db.execute("SELECT MAX(step) FROM steps WHERE kind='step'").fetchone()
    except sqlite3.Error:
        return None
    return None if step is None else int(step) + 1
