"""From a script to what its resume lacks: runs are made, killed and started again; `missing` says what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from samebits.base.errors import InterruptError, SamebitsError, ScriptFailedError, UsageError
from samebits.checking.asking import BudgetSpentError
from samebits.checking.pool import RunPool
from samebits.checking.unjudgeable import why_unjudgeable
from samebits.checking.verdict import Run
from samebits.comparison.locate import first_divergence as divergence_of
from samebits.comparison.runs import saved_beside
from samebits.resuming.missing import missing_states, not_resumed, wrong_generators
from samebits.resuming.plan import Kill, Request, again_run, killed_run, kills, resumed_run, uninterrupted_run
from samebits.resuming.seen import Seen, read_seen, what_was_loaded
from samebits.resuming.tracks import (
    Difference,
    Side,
    as_divergence,
    first_divergence,
    position,
    start_of,
    tracks_of,
)
from samebits.resuming.verdict import Checkpoint, Missing, Resumption, Trial
from samebits.runfolder.notes import Loaded, Saved, Unseen, read_notes
from samebits.runfolder.removal import remove
from samebits.runfolder.spec import Moment, Restored

# Which of the kept states gives back what is missing.
_CURED_BY = {
    "order": "generators",
    "epoch": "generators",
    "sample-generators": "generators",
    "generators": "generators",
    "optimizer": "optimizer",
    "scheduler": "optimizer",
}

NEVER_REPEATS = "the script does not repeat even when it is not interrupted"


def run_resume(request: Request, pool: RunPool) -> Resumption:
    """Make the runs, and say what they show."""
    testing = _Testing(request, pool)
    try:
        testing.run()
    except BudgetSpentError as spent:
        signal = spent.signal or 2
        return testing.found(error=InterruptError.by(signal, pool.home), signal=signal)
    except SamebitsError as error:
        return testing.found(error=error)
    return testing.found()


@dataclass(frozen=True)
class _Stopped:
    """A run that was stopped; what it left was kept."""

    run: Run
    seen: Seen


class _Testing:
    """One test, run by run."""

    def __init__(self, request: Request, pool: RunPool) -> None:
        self.request, self.pool = request, pool
        self.trials: list[Trial] = []
        self.whole: Run | None = None
        self.steps = 0

    def found(self, error: SamebitsError | None = None, signal: int | None = None) -> Resumption:
        """What is known by now."""
        runs = self.pool.runs
        noted = (note.what for run in runs for note in read_notes(run.path, Unseen))
        return Resumption(
            str(self.request.command),
            str(self.request.again),
            self.pool.home,
            tuple(run.record for run in runs),
            self.steps,
            self.whole is not None and self.whole.facts.stopped_after is None,
            tuple(self.trials),
            self.request.seed if self.request.kills else None,
            error,
            signal,
            tuple(dict.fromkeys(noted)),
        )

    def run(self) -> None:
        """All of it."""
        self.whole = self.pool.run(uninterrupted_run(self.request))
        self.seen = read_seen(self.whole.path)
        trouble = why_unjudgeable([self.whole])
        if trouble is not None:
            raise trouble
        self.tracks = tracks_of(self.whole.outcome.folder.recordings())
        self.steps = min(track.steps for track in self.tracks.values())
        self._need_saves()
        for kill in kills(self.request, self.seen.saved_in(), self.steps):
            self.trials.append(self._trial(kill))

    def _need_saves(self) -> None:
        saves = self.seen.steps_saved
        if not saves:
            raise UsageError(
                f"the script never saved while it took {self.steps} steps, so there is nothing to resume from",
                "let it save every few steps; where it writes in a way of its own, say when with --saved-at STEPS "
                "(seen are torch.save, safetensors, torch.distributed.checkpoint, pickle, joblib and NumPy)",
            )
        if saves[0] >= self.steps:
            raise UsageError(
                f"the script saves after its last step only, step {self.steps - 1}: a training that is stopped before "
                "has nothing to resume from",
                "save every few steps, or give it more steps to take",
            )
        for step in self.request.at:
            if step >= self.steps - 1:
                raise UsageError(f"--at {step}: the script takes {self.steps} steps, so none is left after that one")
            if saves[0] > step:
                raise UsageError(
                    f"--at {step}: nothing is saved before; the first save is made when {saves[0]} steps are done"
                )

    # ---- one trial

    def _trial(self, kill: Kill) -> Trial:
        trial = self._stopped_and_resumed(kill)
        if trial.divergence is not None:
            self._need_repeat_up_to(trial.divergence.step, proved=trial.killed_after + 1)
        return trial

    def _stopped_and_resumed(self, kill: Kill) -> Trial:
        assert self.whole is not None
        killed = self.pool.run(killed_run(self.request, kill, str(self.whole.path)))
        seen = read_seen(killed.path)
        self._need_repeat(killed)
        self._need_stop(killed, seen, kill)
        try:
            return self._resumed(_Stopped(killed, seen), kill.most)
        finally:
            for state in killed.path.glob("kept.*"):
                remove(state)

    def _need_repeat(self, killed: Run) -> None:
        assert self.whole is not None
        place = divergence_of(self.whole.outcome.folder.recordings(), killed.outcome.folder.recordings())
        if place is not None and place.stream != "length":
            raise _never_repeats(place.step)

    def _need_stop(self, killed: Run, seen: Seen, kill: Kill) -> None:
        if killed.trouble is not None:
            raise killed.trouble
        if not seen.stops:
            what = "within a save" if self.request.during_save else f"after step {kill.after}"
            raise ScriptFailedError(
                f"the run that was to be stopped {what} {killed.outcome.described} before, after {killed.steps} steps",
                f"the whole output is in {killed.outcome.folder.stderr}",
            )

    def _resumed(self, stopped: _Stopped, most: int | None) -> Trial:
        left = self.steps - max((one.steps for one in stopped.seen.saves if one.steps > 0), default=0)
        last = max(1, left if most is None else min(left, most)) - 1
        run = self.pool.run(resumed_run(self.request, last), command=self.request.again)
        torn = next((stop.torn for stop in stopped.seen.stops if stop.torn), "")
        after = max(stop.step for stop in stopped.seen.stops)
        trial = Trial(self.request.signal, after, torn, runs=(stopped.run.id, run.id))
        trouble = self._why_not(run, trial)
        if trouble is not None:
            return replace(trial, error=trouble)
        looked = _Looked.at(self, stopped, run)
        if looked is None:
            return self._took_none(trial, stopped, run)
        start = looked.sides[0].start
        if start.step > stopped.seen.most_done:
            raise SamebitsError(
                f"it resumed at step {start.step}, later than it was killed, after step {after}",
                "did it load what another training has saved? {run} in the command is a folder of each run's own",
            )
        trial = replace(
            trial,
            saved_step=None if start.is_from_the_start else start.step,
            resumed_step=start.step,
            compared=min(side.rows for side in looked.sides),
            checkpoint=looked.checkpoint,
        )
        if not trial.compared:
            return replace(trial, error=_none_to_compare(start.step, self.steps))
        if start.is_from_the_start:
            return replace(trial, missing=tuple(looked.missing()))
        first = looked.first()
        if first is None:
            return self._ended_alike(trial, looked, run)
        divergence = as_divergence(*first, looked.ranks_at(first))
        trial = replace(trial, divergence=divergence, missing=tuple(looked.missing()))
        return self._confirmed(trial, looked, stopped, last)

    def _why_not(self, run: Run, trial: Trial) -> SamebitsError | None:
        """Why a run that was to resume says nothing; a script that starts a second time may need to be told so."""
        if run.trouble is not None:
            return run.trouble
        if run.outcome.timed_out:
            return why_unjudgeable([run])
        if run.succeeded:
            return None
        lines = "\n".join(f"  {line}" for line in run.facts.stderr_tail) or "  (it printed nothing on stderr)"
        where = (
            f"killed while it saved {Path(trial.torn).name}"
            if trial.torn
            else f"killed after step {trial.killed_after}"
        )
        what = "could not start from an intact checkpoint" if trial.torn else "failed"
        ended = f"it {run.outcome.described}; the end of its output:\n{lines}"
        return ScriptFailedError(
            f"{where} and started again, the command {what}: {ended}",
            _hint_for_failure(run, trial.torn, self.request.again != self.request.command),
        )

    def _took_none(self, trial: Trial, stopped: _Stopped, run: Run) -> Trial:
        """It ended well and trained nothing: for it, the training was over."""
        saved, loaded = what_was_loaded(stopped.seen, read_seen(run.path))
        checkpoint = _checkpoint(saved, loaded, stopped.seen)
        evidence = f"takes no step at all, and {self.steps - trial.killed_after - 1} were left"
        return replace(
            trial, checkpoint=checkpoint, missing=(Missing("epoch", evidence, location=checkpoint.saved_at),)
        )

    def _ended_alike(self, trial: Trial, looked: _Looked, run: Run) -> Trial:
        """Every step agrees: does it also take as many?"""
        side = looked.sides[0]
        left = self.steps - side.start.step
        # A run that was ended by us is no shorter than it was to be.
        is_short = side.b.is_complete and side.b.steps < left and run.facts.stopped_after is None
        if not is_short:
            return trial
        evidence = f"ends after {side.b.steps} steps, and {left} were left"
        return replace(trial, missing=(Missing("epoch", evidence, location=looked.checkpoint.saved_at),))

    def _need_repeat_up_to(self, step: int, proved: int) -> None:
        """The killed run has shown that the script repeats, as far as it went; another one shows the rest."""
        if step < proved:
            return
        assert self.whole is not None
        again = self.pool.run(again_run(self.request, step))
        place = divergence_of(self.whole.outcome.folder.recordings(), again.outcome.folder.recordings(), step)
        if place is not None:
            raise _never_repeats(place.step)

    # ---- what it lacks, by experiment

    def _confirmed(self, trial: Trial, looked: _Looked, stopped: _Stopped, last: int) -> Trial:
        """Give back what seems to be missing; where that helps it was missing, and what still differs is next."""
        first = looked.first()
        suspect = next((one for one in trial.missing if one.state in _CURED_BY), None)
        restored = None if first is None or suspect is None else looked.cure(first, suspect, stopped.run.path)
        if first is None or suspect is None or restored is None:
            return trial
        run = self.pool.run(resumed_run(self.request, last, restored), command=self.request.again)
        trial = replace(trial, runs=(*trial.runs, run.id))
        cured = _Looked.at(self, stopped, run) if run.succeeded else None
        if cured is None:
            return trial
        after = cured.first()
        if after is not None and position(after[1], after[2]) <= position(first[1], first[2]):
            found = looked.missing(is_cured=False) if suspect.state == "order" else trial.missing
            return replace(trial, missing=tuple(_as_tried(one, suspect) for one in found))
        return replace(trial, missing=_with_confirmed(trial.missing, suspect, cured))


def _as_tried(one: Missing, suspect: Missing) -> Missing:
    return replace(one, is_tried=True) if one.state == suspect.state else one


def _with_confirmed(missing: Sequence[Missing], suspect: Missing, cured: _Looked) -> tuple[Missing, ...]:
    """The suspect confirmed, and what still differs added."""
    # An order that comes from the global generators is cured by them, whatever epoch it looked like.
    state = "order" if suspect.state == "epoch" else suspect.state
    still = [one for one in cured.missing() if (suspect.state, one.state) != ("sample-generators", "generators")]
    states = {one.state for one in still}
    # Of what was seen besides, that counts which is seen without the suspect, too.
    before = missing[: missing.index(suspect) + 1]
    found = [replace(one, confirmed=True, state=state) if one is suspect else one for one in before]
    found += [one for one in missing[len(before) :] if one.state in states]
    known = {one.state for one in found}
    return (*found, *(one for one in still if one.state not in known))


@dataclass(frozen=True)
class _Looked:
    """A resumed run beside the uninterrupted one, rank by rank."""

    sides: Sequence[Side]
    checkpoint: Checkpoint
    is_loaded: bool
    torn: str = ""
    told: int | None = None

    @classmethod
    def at(cls, testing: _Testing, stopped: _Stopped, run: Run) -> _Looked | None:
        """None where it took no step."""
        seen, tracks = read_seen(run.path), tracks_of(run.outcome.folder.recordings())
        if not tracks:
            return None
        saved, loaded = what_was_loaded(stopped.seen, seen)
        most = stopped.seen.most_done
        fallback = max((one.steps for one in stopped.seen.saves if one.steps > 0), default=None)
        is_loaded = loaded is not None or bool(testing.request.saved_at)
        known = saved.steps if saved is not None else fallback if is_loaded else None
        assert testing.whole is not None
        beside = saved_beside(*(one.outcome.folder.recordings() for one in (testing.whole, stopped.run)))
        steady, sides = frozenset(name for name, agrees in beside.items() if agrees), []
        for rank in sorted(testing.tracks.keys() & tracks.keys()):
            a, b = testing.tracks[rank], tracks[rank]
            start = start_of(a, b, known, most)
            counts, fetched = _counts(stopped.seen, start.step), (testing.seen.of_rank(rank), seen.of_rank(rank))
            sides.append(Side(a, b, start, counts, *fetched, testing.seen.has_scaler, steady))
        if saved is None or saved.steps != sides[0].start.step:
            saved = next((one for one in reversed(stopped.seen.saves) if one.steps == sides[0].start.step), saved)
        torn = next((Path(stop.torn).name for stop in stopped.seen.stops if stop.torn), "")
        told = None if loaded is not None else min(testing.request.saved_at, default=None)
        return cls(sides, _checkpoint(saved, loaded, stopped.seen), loaded is not None, torn, told)

    def first(self) -> tuple[Side, int, Difference] | None:
        """The first place at which it differs."""
        return first_divergence(self.sides)

    def ranks_at(self, first: tuple[Side, int, Difference]) -> list[int]:
        """The ranks that differ there."""
        _, row, difference = first
        found = []
        for side in self.sides:
            own = side.difference(row) if row < side.rows else None
            if own is not None and own.stream == difference.stream:
                found.append(side.a.rank)
        return found

    def missing(self, is_cured: bool | None = None) -> list[Missing]:
        """What explains it, once it is known whether giving back the generators cures it."""
        path = Path(self.checkpoint.path).name if self.is_loaded else ""
        first = self.first()
        if self.sides[0].start.is_from_the_start:
            found = [not_resumed(self.sides[0], path, self.torn, self.told)]
        elif first is None:
            return []
        else:
            found = missing_states(*first, {one.a.rank: one for one in self.sides}, is_cured)
        location = self.checkpoint.saved_at or self.checkpoint.loaded_at
        return [replace(one, location=location) for one in found]

    def cure(self, first: tuple[Side, int, Difference], suspect: Missing, killed: Path) -> Restored | None:
        """What to give back, and when, to see whether a suspected state is missing; None where that cannot be tried."""
        side, row, _ = first
        what = _CURED_BY[suspect.state]
        if not any(killed.glob("kept.*")):
            return None
        if what == "optimizer":
            return Restored(str(killed), "optimizer", "step") if row == 0 else None
        # What the script has seeded itself by then is right, and stays.
        names = tuple(wrong_generators(side, row)) if suspect.state == "generators" else ()
        a, b = side.fetched(row)
        if row > 0:
            a, b = side.fetched(0)
        if not a or not b:
            return Restored(str(killed), "generators", "load", names=names) if self.is_loaded else None
        if a[0].position == 0:
            return Restored(str(killed), "generators", "iter", names=names)
        if suspect.state in ("order", "epoch"):
            return None
        moment: Moment = "batch"
        return Restored(str(killed), "generators", moment, side.b_fetched.index(b[0]), names)


def _counts(killed: Seen, step: int) -> dict[str, int]:
    """How much of the next step had come when so many were done and it was saved."""
    saves = [one for one in killed.saves if one.steps == step and one.rank == 0]
    return dict(saves[-1].counts) if saves else {}


def _checkpoint(saved: Saved | None, loaded: Loaded | None, killed: Seen) -> Checkpoint:
    if saved is None:
        saved = next((one for one in reversed(killed.saves) if one.steps > 0), None)
    path = loaded.path if loaded is not None and loaded.path else "" if saved is None else saved.path
    return Checkpoint(path, None if saved is None else saved.site, None if loaded is None else loaded.site)


def _never_repeats(step: int) -> SamebitsError:
    return SamebitsError(
        f"{NEVER_REPEATS}: two runs with everything pinned diverge at step {step}",
        "samebits check says why; a resume can be judged when that is mended",
    )


def _none_to_compare(start: int, steps: int) -> SamebitsError:
    return SamebitsError(
        f"it resumed at step {start}, and the uninterrupted run took {steps} steps: there is none to compare",
        "give a step further from the end with --at",
    )


def _hint_for_failure(run: Run, torn: str, has_with: bool) -> str:
    if torn:
        return "write to another name, and rename it when it is whole; keep the one before, and go back to that"
    if has_with:
        return f"that is what --with gave it; the whole output is in {run.outcome.folder.stderr}"
    if "exists" in run.facts.last_words.lower():
        return "it makes a folder that exists; give what it needs to resume with --with, such as --with '--resume'"
    return "does it need other arguments to resume? Give them with --with, such as --with '--resume {run}/last.pt'"
