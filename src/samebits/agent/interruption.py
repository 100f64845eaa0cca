"""Watches the checkpoints of a run, and stops the run in the middle, as a training is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from samebits.agent.events import Event
from samebits.agent.fetches import Fetches
from samebits.agent.kept_state import StateKeeper, StateRestorer
from samebits.agent.log import Log
from samebits.agent.taps.saving import SaveOrLoad
from samebits.base.errors import SamebitsError
from samebits.base.ranks import current_world
from samebits.base.sites import user_file_path
from samebits.runfolder.notes import Interrupted, Loaded, Saved
from samebits.runfolder.spec import ResumeSpec

if TYPE_CHECKING:
    from samebits.agent.recorder import Recorder

# A program that was asked to end has so many steps, and at least so many seconds, to save and leave.
STEPS_TO_LEAVE, SECONDS_TO_LEAVE = 10, 10.0
# How long a rank waits for the other ranks to end the step after which all are stopped.
WAIT_SECONDS = 5.0


class Interruption:
    """Notes saves and loads, keeps or gives back state, and stops the run where that was asked for."""

    def __init__(self, recorder: Recorder, spec: ResumeSpec) -> None:
        self.recorder, self.spec = recorder, spec
        self.fetches = Fetches(recorder)
        recorder.on(Event.ROW_ENDED, self._step_ended)
        recorder.on(Event.PASSED, self._passed)
        self._asked = 0.0
        self.giving_back = None if spec.restored is None else StateRestorer(recorder, spec.restored, self.fetches)
        self.keeping = None if spec.keep_at is None else StateKeeper(recorder)

    def _passed(self, passage: SaveOrLoad) -> None:
        """Note what was saved or loaded, and keep or compare the state there."""
        log = self.recorder.main.log
        path = user_file_path(passage.path) if passage.path else ""
        about = path, log.step, passage.what, passage.site, log.rank, _time_of(passage.path)
        if passage.direction == "saved":
            is_in_other_thread = threading.get_ident() != self.recorder.thread
            self._saved(Saved(*about, dict(log.counts), is_in_other_thread), passage.path)
            return
        self.recorder.journal.note(Loaded(*about))
        if self.giving_back is not None:
            self.giving_back.loaded()

    def _saved(self, note: Saved, path: str) -> None:
        self.recorder.journal.note(note)
        log, steps = self.recorder.main.log, note.steps
        log.leash.saves.append(steps)
        self._keep(steps)
        torn = self.spec.torn_save
        if torn is not None and steps >= torn and os.path.isfile(path):
            os.truncate(path, os.path.getsize(path) // 2)
            self._kill(log, torn=note.path)

    def _keep(self, steps: int) -> None:
        """Begin to keep the state after the step that was asked for, on every rank, whichever rank saves."""
        if self.keeping is not None and steps == self.spec.keep_at:
            self.keeping.open()

    def _step_ended(self, log: Log) -> None:
        """Act on the end of a step: keep state, and stop the run, where that was asked for."""
        self._keep(log.step)
        if log.step in self.spec.saved_at:
            # By `--saved-at`, the program has saved by now.
            self._saved(Saved("", log.step, "--saved-at", None, log.rank, "", dict(log.counts)), "")
        if self.giving_back is not None:
            self.giving_back.close()
            self.giving_back.loaded()
        last, asked = log.step - 1, self.spec.stop_after
        if asked is None or last < asked:
            return
        if self.spec.signal == "KILL":
            log.commit()
            self._wait_for_ranks()
            self._kill(log)
        elif last == asked:
            log.commit()
            self.recorder.journal.note(Interrupted(last, "SIGTERM", log.rank))
            self._asked = time.monotonic()
            threading.Thread(target=self._ask_to_end, daemon=True).start()
        elif last >= asked + STEPS_TO_LEAVE and time.monotonic() > self._asked + SECONDS_TO_LEAVE:
            self._kill(log)

    def _ask_to_end(self) -> None:
        """Send SIGTERM once the main thread has left our hooks, so that what the handler raises reaches the program."""
        with self.recorder.lock:
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    def _kill(self, log: Log, torn: str = "") -> None:
        log.commit()
        if self.keeping is not None:
            self.keeping.close()
        self.recorder.journal.note(Interrupted(log.step - 1, "SIGKILL", log.rank, torn))
        os.kill(os.getpid(), signal.SIGKILL)

    def _wait_for_ranks(self) -> None:
        """Wait until all ranks have ended this step: a rank that is gone would keep the others from ending it."""
        with suppress(SamebitsError, OSError):
            rank, world_size = current_world()
            if world_size > 1:
                folder = self.recorder.journal.folder
                (folder / f"stopped.{rank}").touch()
                end = time.monotonic() + WAIT_SECONDS
                while len(list(folder.glob("stopped.*"))) < world_size and time.monotonic() < end:
                    time.sleep(0.01)


def _time_of(path: str) -> str:
    """Return the modification time of a file in ns, which moving and copying may keep; empty where there is none."""
    with suppress(OSError, ValueError):
        return str(os.stat(path).st_mtime_ns)
    return ""
