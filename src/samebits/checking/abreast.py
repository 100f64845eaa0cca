"""How many runs fit side by side: cores and memory for all, as one run alone was seen to need them.

Nobody's number of threads is changed for it: a run that keeps all cores busy goes alone. What one run needs is known
when it has ended, with all its workers. Ranks, and whatever uses an accelerator, go alone.

Where nobody asked for it, two at most go on in the working folder itself: `company` says how.
"""

from __future__ import annotations

import math
import resource
import sys
from dataclasses import dataclass, replace

from samebits.checking.machine import free_bytes
from samebits.checking.places import Places, setting_of
from samebits.checking.plan import Request
from samebits.checking.verdict import Run
from samebits.runfolder.ledger import has_changed
from samebits.runfolder.place import asks_for_run_folder
from samebits.runfolder.plan import RunPlan

# Of the memory that is free: the system and the page cache live on the rest.
SHARE_OF_MEMORY = 0.8
# A run that is a little above one core does not need two.
SLACK_CORES = 0.15
# What runs side by side would share: a device, and the port at which ranks meet.
SHARED = frozenset({"accelerator", "ranks"})
# Where nobody asked: no more than this, in half of the memory that is free.
MOST_UNASKED, SHARE_UNASKED = 2, 0.5
# A folder that holds more is not looked through before and after runs.
MOST_PATHS = 10_000


@dataclass(frozen=True)
class Need:
    """What the processes took that have ended below this one.

    Attributes:
        cpu_seconds: all together.
        peak_bytes: of memory, the largest of them.
    """

    cpu_seconds: float
    peak_bytes: int


def needed() -> Need:
    """Since this process began."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Need(used.ru_utime + used.ru_stime, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024))


class Abreast:
    """How many runs of a check go on side by side.

    Args:
        request: the check.
        places: where its runs happen.
    """

    def __init__(self, request: Request, places: Places) -> None:
        self._request, self._places = request, places
        self._fitting = 1 if request.as_fits else request.jobs
        self._before = needed()
        # Runs that were ended after these steps changed something; infinity is one that went to its own end.
        self._changing = set[float]()
        self._is_known = not request.as_fits
        # Of runs that went so far it is known that they have in company what they have alone.
        self.harmless_steps = 0
        self._stamp = self.look() if request.unasked else None

    def room(self, plan: RunPlan) -> int:
        """How many runs like this one may go on at once."""
        if not self._request.unasked or self._fitting == 1:
            return self._fitting
        # Side by side, copies and folders of their own have paths of their own, of which a program may make something.
        is_apart = setting_of(plan).mode != "natural" or asks_for_run_folder(self._request.command.argv)
        is_changing = any(_reach(plan.stop_after) >= one for one in self._changing)
        return 1 if is_apart or is_changing else self._fitting

    def lone(self, plan: RunPlan) -> int:
        """How many runs more of this kind show that those made side by side have what one by itself has."""
        is_open = self._request.unasked and self.room(plan) > 1 and _reach(plan.stop_after) >= self.harmless_steps
        return int(is_open)

    def learn(self, run: Run) -> None:
        """What a run that counts has shown; the first one was made alone."""
        if not self._is_known:
            self._is_known, now = True, needed()
            need = replace(now, cpu_seconds=now.cpu_seconds - self._before.cpu_seconds)
            share = SHARE_UNASKED if self._request.unasked else SHARE_OF_MEMORY
            self._fitting = fitting(self._request.jobs, run, need, free_bytes(), share)
            if self._request.unasked and not has_changed(run.path) and self.look() != self._stamp:
                # Somebody else writes here, or the run does past Python.
                self.go_alone()
        if has_changed(run.path):
            self._changing.add(_reach(run.facts.stopped_after))

    def has_memory(self) -> bool:
        """Whether as many fit as were asked for, by what the largest process has taken up to now."""
        free = free_bytes()
        return free is None or free * SHARE_UNASKED >= self._request.jobs * needed().peak_bytes

    def look(self) -> int | None:
        """A number that is another one when a file in the working folder has changed; None where it holds too many."""
        return self._places.source.stamp(MOST_PATHS)

    def go_alone(self, plan: RunPlan | None = None) -> None:
        """From now on such runs are made one after the other, and those that go further; without one, all."""
        self._changing.add(-math.inf if plan is None else _reach(plan.stop_after))


def _reach(last: int | None) -> float:
    return math.inf if last is None else last


def fitting(most: int, run: Run, need: Need, free: int | None, share: float = SHARE_OF_MEMORY) -> int:
    """How many runs like this one fit.

    Args:
        most: cores.
        run: that was made alone.
        need: of all its processes.
        free: bytes of memory that can be taken; None where that is not known.
        share: of them that may be.
    """
    if run.facts.used is None or run.facts.used & SHARED:
        return 1
    busy = max(1, math.ceil(need.cpu_seconds / max(run.outcome.wall_seconds, 1e-3) - SLACK_CORES))
    by_memory = most if free is None else int(free * share // max(1, need.peak_bytes))
    return max(1, min(most // busy, by_memory))
