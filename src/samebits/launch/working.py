"""A folder in which runs are made: marked while it is written to, and left whole when a signal comes."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from samebits.base.errors import InterruptError
from samebits.launch.signals import signals_end_runs
from samebits.runfolder.folder import mark_busy, mark_done


@contextmanager
def working_in(home: Path) -> Iterator[None]:
    """Runs are made in a folder; a signal ends all of them, with InterruptError, and what was recorded is kept."""
    mark_busy(home)
    try:
        with signals_end_runs():
            yield
    except KeyboardInterrupt as interrupt:
        raise InterruptError.by(interrupt.args[0] if interrupt.args else signal.SIGINT, home) from interrupt
    finally:
        mark_done(home)
