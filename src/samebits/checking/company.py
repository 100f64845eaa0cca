"""Runs side by side in one folder, where nobody asked for it: what they have there, they would have alone.

The first of them is there as if it were alone; the others are its guests. A guest ends before it changes anything that
others would find, and counts only if the first run has changed nothing by then. What is past all that, a port taken in
C++ or a file written there, shows in the bits: as long as it is not known that company is harmless, one run is made
again by itself. A failure is the run's own unless it fails again and again in company, and not alone.

Runs that begin at the same moment also agree in what that moment gave them: the time, the load of the machine. So whole
runs that are compared with nothing but one another begin apart.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.checking.abreast import Abreast
from samebits.checking.plan import LOOK_STEPS
from samebits.checking.verdict import Run
from samebits.comparison.locate import Divergence
from samebits.launch.process import Outcome
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.ledger import has_changed, remove_temporary
from samebits.runfolder.plan import RunPlan

if TYPE_CHECKING:
    from samebits.checking.pool import Job, RunPool

# A run that failed beside another one gets so many chances to do so again, before it is said to fail by itself.
TRIES = 2
# So far apart begin runs that are compared with one another only: in seconds (Linux takes the load of the machine every
# five), and as a share of what a run takes, for what changes slowly.
APART_SECONDS, APART_SHARE = 5.5, 0.1


class Company:
    """Runs that go on at once in the working folder, and whether they may have disturbed one another.

    Args:
        look: a number that is another one when a file in the folder has changed.
        host: run folder of the run that is there as if it were alone.

    Attributes:
        stamp: of the folder, when they began.
        is_disturbed: a file was made, changed or taken away, and none of them had said so: nobody knows who it was.
    """

    def __init__(self, look: Callable[[], int | None], host: Path) -> None:
        self.look, self._host = look, host
        self.stamp = look()
        self.is_disturbed = False

    def is_over(self, guest: Path) -> bool:
        """Whether a guest cannot count any more: one of them has come to change something."""
        return has_changed(guest) or has_changed(self._host)

    def counts(self, guest: Path) -> bool:
        """Whether a guest that has ended found the folder as it would have been without the others."""
        is_changed = self.look() != self.stamp
        # A run says so before it changes anything.
        is_over = self.is_over(guest)
        self.is_disturbed |= is_changed and not is_over
        return not (is_changed or is_over)


class SideBySide:
    """Makes runs of a pool side by side.

    Args:
        pool: to which the runs belong.
        abreast: what is known of how many may go on at once.
    """

    def __init__(self, pool: RunPool, abreast: Abreast) -> None:
        self._pool, self._abreast = pool, abreast
        # Runs had other bits by themselves than in company, and perhaps have others every time.
        self._is_unclear = False

    def make(self, jobs: Sequence[Job], spare: Job | None = None) -> list[Run]:
        """Side by side in one folder, the first of them as host; what company may have changed is made again, alone.

        Args:
            jobs: two at least.
            spare: comes after them, and is made by itself where that shows whether company changes anything.

        Returns:
            The runs in their order, the spare one last if it was made.
        """
        host, *guests = jobs
        company = self._company(self._pool.path_of(*host))
        if company is None:
            return [self._pool.keep(self._pool.read(job[0], self._pool.halfway.made(job))) for job in jobs]
        apart = self._apart(jobs)
        ended = self._side_by_side(jobs, company, apart)
        for number, plan in jobs:
            if (outcome := ended[number]) is not None:
                self._pool.halfway.learn(number, plan, outcome)
        failed = [job for job in jobs if (outcome := ended[job[0]]) is not None and not outcome.succeeded]
        if failed:
            self._abreast.go_alone()
            if any(self._fails_again(jobs) for _ in range(TRIES)):
                self._remark(failed, "failed beside another one, more than once, and was made again by itself")
                failed = []
            ended = {
                number: outcome if any(number == job[0] for job in failed) else None
                for number, outcome in ended.items()
            }
        elif company.is_disturbed:
            self._abreast.go_alone()
            self._remark(guests, "was made again: files changed meanwhile, and no run had said so")
        elif None in ended.values():
            self._abreast.go_alone(guests[0][1])
        good = {number: outcome for number, outcome in ended.items() if outcome is not None}
        for job in guests:
            if job[0] not in good:
                stamp = company.look()
                good[job[0]] = self._again(job)
                # Alone it changes files, too, and says nothing: so it may have been what disturbed the host.
                if company.is_disturbed and company.look() != stamp and not has_changed(self._pool.path_of(*job)):
                    good.pop(host[0], None)
        if host[0] not in good:
            good[host[0]] = self._again(host)
        runs = {number: self._pool.read(number, outcome) for number, outcome in good.items()}
        is_settled = apart and all(self._pool.differ(runs[host[0]], runs[job[0]]) is None for job in guests)
        if not failed and not is_settled and None not in ended.values():
            self._compare_with_lone(jobs, runs, spare)
        return [self._pool.keep(run) for _, run in sorted(runs.items())]

    def _company(self, host: Path) -> Company | None:
        """None where memory is short, or the folder too large to look through."""
        if not self._abreast.has_memory():
            return None
        company = Company(self._abreast.look, host)
        if company.stamp is not None:
            return company
        self._abreast.go_alone()
        return None

    def _apart(self, jobs: Sequence[Job]) -> float:
        """Seconds between their beginnings; 0.0 where company is compared with runs made at another time."""
        is_compared = any(plan.follow or plan.along or plan.stop_after is not None for _, plan in jobs)
        if is_compared or not self._abreast.harmless_steps:
            return 0.0
        longest = max((run.outcome.wall_seconds for run in self._pool.runs), default=0.0)
        return max(APART_SECONDS, APART_SHARE * longest)

    def _side_by_side(self, jobs: Sequence[Job], company: Company, apart: float = 0.0) -> dict[int, Outcome | None]:
        """How each ended; None for a guest that cannot count."""
        with ThreadPoolExecutor(len(jobs)) as threads:
            host: Future[Outcome | None] = threads.submit(self._pool.ended, *jobs[0])
            running = [host]
            for job in jobs[1:]:
                wait([running[-1]], apart)
                running.append(threads.submit(self._guest, *job, company))
        trouble = next(filter(None, (one.exception() for one in running)), None)
        ended = {job[0]: None if one.exception() else one.result() for job, one in zip(jobs, running, strict=True)}
        if trouble is None:
            return ended
        for number, outcome in ended.items():
            if outcome is not None and outcome.succeeded:
                self._pool.keep(self._pool.read(number, outcome))
        raise trouble

    def _fails_again(self, jobs: Sequence[Job]) -> bool:
        """Whether one fails or is disturbed whenever they go on at once: else it fails by itself, now and then."""
        first = {self._pool.path_of(*job): self._aside(job) for job in jobs}
        company = self._company(self._pool.path_of(*jobs[0]))
        ended = {} if company is None else self._side_by_side(jobs, company)
        for path, aside in first.items():
            shutil.rmtree(path, ignore_errors=True)
            aside.rename(path)
        is_disturbed = company is not None and company.is_disturbed
        return is_disturbed or any(outcome is not None and not outcome.succeeded for outcome in ended.values())

    def _compare_with_lone(self, jobs: Sequence[Job], runs: dict[int, Run], spare: Job | None) -> None:
        """What runs have in company is theirs only if they have it alone; asked as long as that is not known.

        It is known where they agree with runs that are trusted; else the spare one is made by itself, if one of them is
        treated as that one, or the last one once more; and so are those that do not agree with it.
        """
        steps = max(run.steps for run in runs.values())
        if steps <= self._abreast.harmless_steps or self._is_like_trusted(list(runs.values())):
            self._abreast.harmless_steps = max(steps, self._abreast.harmless_steps)
            return
        *others, last = jobs
        if spare is None or not _is_treated_alike(spare[1], last[1]):
            is_as_alone = self._is_as_alone(last, runs)
        else:
            lone = runs[spare[0]] = self._spare(spare, runs)
            is_as_alone = self._pool.differ(runs[last[0]], lone) is None
            if not is_as_alone and self._diverge_anyway(jobs, lone, runs):
                return
            is_as_alone = is_as_alone or self._is_as_alone(last, runs)
        changed = [last]
        if is_as_alone:
            unlike = [job for job in others if self._pool.differ(runs[job[0]], runs[last[0]]) is not None]
            changed = [job for job in unlike if not self._is_as_alone(job, runs)]
            if not changed:
                known = min(run.steps for run in runs.values())
                self._abreast.harmless_steps = max(known, self._abreast.harmless_steps)
                return
            others = [job for job in others if job not in unlike]
        if self._diverge_anyway(others, runs[last[0]], runs):
            return
        for job in others:
            runs[job[0]] = self._pool.read(job[0], self._again(job))
        repeating = [job for job in changed if self._repeats(job[0], runs)]
        if repeating:
            self._remark(repeating, "had other bits beside another one than by itself: all others were made one by one")
        if repeating or self._is_unclear:
            self._abreast.go_alone()
        self._is_unclear = True

    def _spare(self, job: Job, runs: dict[int, Run]) -> Run:
        """The run by itself; those before it count when a signal ends it, if there is no difference to be explained."""
        try:
            return self._pool.read(job[0], self._pool.halfway.made(job))
        except KeyboardInterrupt:
            first, *others = runs.values()
            if all(self._pool.differ(first, one) is None for one in others):
                for run in runs.values():
                    self._pool.keep(run)
            raise

    def _repeats(self, number: int, runs: dict[int, Run]) -> bool:
        """Whether another run has the bits that this one has by itself; else it may have others every time."""
        own = runs[number]
        known = {run.id: run for run in (*self._pool.runs, *runs.values()) if run.id != number}
        return any(one.steps >= own.steps and self._pool.differ(one, own) is None for one in known.values())

    def _is_as_alone(self, job: Job, runs: dict[int, Run]) -> bool:
        """Whether a run has the same bits by itself; that is the one that counts then."""
        number = job[0]
        aside = self._aside(job)
        beside = self._pool.read(number, replace(runs[number].outcome, folder=RunFolder(aside)))
        try:
            runs[number] = self._pool.read(number, self._pool.halfway.made(job))
            return self._pool.differ(beside, runs[number]) is None
        finally:
            shutil.rmtree(aside)

    def _is_like_trusted(self, found: Sequence[Run]) -> bool:
        """Whether each agrees with a run that counts already."""
        known, differ = self._pool.runs, self._pool.differ
        return all(any(one.steps >= run.steps and differ(one, run) is None for one in known) for run in found)

    def _diverge_anyway(self, jobs: Sequence[Job], lone: Run, runs: dict[int, Run]) -> bool:
        """Whether runs differ from one that was made by itself because something was left free in all of them.

        They leave a run that counts at the same place, those in company and the one alone: up to there company did
        nothing.
        """
        if not set(lone.plan.named("pinned")) <= set(self._pool.request.pins):
            return False
        company = {number for number, _ in jobs}
        known = [*self._pool.runs, *(run for number, run in runs.items() if number not in company)]
        places = [self._common_place(runs[number], lone, known) for number in company]
        if not places or None in places:
            return False
        first = min(place.step for place in places if place is not None)
        self._abreast.harmless_steps = max(first if first >= LOOK_STEPS else 0, self._abreast.harmless_steps)
        return True

    def _common_place(self, beside: Run, lone: Run, known: Sequence[Run]) -> Divergence | None:
        """Where both leave the same run that is known."""
        for one in known:
            a, b = self._pool.differ(one, beside), self._pool.differ(one, lone)
            if a is not None and b is not None and a.position == b.position:
                return a
        return None

    def _remark(self, jobs: Sequence[Job], what: str) -> None:
        self._pool.remarks += [f"run {number} {what}" for number, _ in jobs]

    def _aside(self, job: Job) -> Path:
        path = self._pool.path_of(*job)
        return path.rename(path.with_name(f"{path.name}-beside"))

    def _again(self, job: Job) -> Outcome:
        shutil.rmtree(self._pool.path_of(*job))
        return self._pool.halfway.made(job)

    def _guest(self, number: int, plan: RunPlan, company: Company) -> Outcome | None:
        """A run beside that one; None where it cannot count, because it has not been alone with the folder."""
        path = self._pool.path_of(number, plan)
        outcome = self._pool.ended(number, plan, lambda: company.is_over(path), is_guest=True)
        if company.counts(path):
            return outcome
        remove_temporary(path)
        return None


def _is_treated_alike(a: RunPlan, b: RunPlan) -> bool:
    """Whether two runs are the same but for what they are called, and what they are compared with."""
    return replace(a, role="", follow=None, along=None) == replace(b, role="", follow=None, along=None)
