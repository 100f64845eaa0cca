"""The test of a resume: make runs, kill them, start them again, and find what the resumed run lacks (`missing`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from samebits.base.errors import InterruptError, SamebitsError, ScriptFailedError, UsageError
from samebits.base.printable import listed
from samebits.checking.pool import BudgetSpentError, RunPool
from samebits.checking.unjudgeable import why_unjudgeable
from samebits.checking.verdict import Run
from samebits.resuming.missing import (
    MULTI_VALUED,
    differences_clause,
    grouped_by_object,
    not_resumed,
    states_by_likelihood,
    suspected,
)
from samebits.resuming.plan import (
    KillPoint,
    ResumeRequest,
    killed_run,
    kills,
    repeated_run,
    resumed_run,
    uninterrupted_run,
)
from samebits.resuming.resume_comparison import Recorded, ResumeComparison, checkpoint_of, compare_resumed
from samebits.resuming.tracks import First, RankPair, Start, position, tracks_of
from samebits.resuming.training_notes import loaded_checkpoint, loaded_files
from samebits.resuming.verdict import Missing, Resumption, State, Trial
from samebits.runfolder.notes import Lacks, Unseen, read_notes
from samebits.runfolder.removal import remove
from samebits.runfolder.spec import Restoration

# At most this many runs are made to find out what one resume lacks.
MOST_TRIES = 16

_ASIDE = (
    "saved in another thread while the training continued: its content was changed meanwhile, and belongs to a "
    "later step than it says"
)


def run_resume(request: ResumeRequest, pool: RunPool) -> Resumption:
    """Make the runs, and return what they show."""
    seed = request.seed if request.kills else None
    resumption = begun = Resumption(str(request.command), str(request.again), pool.home, seed=seed)
    try:
        for result in _results_so_far(begun, request, pool):
            resumption = result
    except BudgetSpentError as spent:
        signal = spent.signal or 2
        resumption = replace(resumption, error=InterruptError.by(signal, pool.home), signal=signal)
    except SamebitsError as error:
        resumption = replace(resumption, error=error)
    unseen = (note.what for run in pool.runs for note in read_notes(run.path, Unseen))
    return replace(resumption, runs=tuple(run.record for run in pool.runs), not_observed=tuple(dict.fromkeys(unseen)))


def _results_so_far(found: Resumption, request: ResumeRequest, pool: RunPool) -> Iterator[Resumption]:
    """Yield the result so far, after the uninterrupted run and after every trial."""
    run = pool.run(uninterrupted_run(request))
    trouble = why_unjudgeable([run])
    if trouble is not None:
        raise trouble
    whole = Recorded(run)
    need_one_training(run)
    yield (found := replace(found, steps=whole.steps, is_whole=whole.is_whole))
    need_saves(request, whole.seen.steps_saved, whole.steps)
    for kill in kills(request, whole.seen.saved_in(), whole.steps):
        trial = _run_trial(request, pool, whole, kill)
        location = trial.checkpoint.saved_at or trial.checkpoint.loaded_at
        trial = replace(trial, missing=tuple(replace(one, location=location) for one in trial.missing))
        yield (found := replace(found, trials=(*found.trials, trial)))
        if trial.differs and not (request.at or request.kills):
            break


def _run_trial(request: ResumeRequest, pool: RunPool, whole: Recorded, kill: KillPoint) -> Trial:
    run = pool.run(killed_run(request, kill, str(whole.run.path)))
    need_repeat(whole, run)
    try:
        if run.trouble is not None:
            raise run.trouble
        killed = Recorded(run)
        if not killed.seen.stops:
            when = "within a save" if request.during_save else f"after step {kill.after}"
            raise ScriptFailedError(
                f"the run that was to be stopped {when} {run.described} before, after {run.steps} steps",
                f"the whole output is in {run.folder.stderr}",
            )
        return _ResumeTrial(request, pool, whole, killed).trial(kill.most)
    finally:
        for state in run.path.glob("kept.*"):
            remove(state)


def need_saves(request: ResumeRequest, saves: Sequence[int], steps: int) -> None:
    """Raise UsageError where there is nothing to resume from, or not after a step that the user asked for."""
    if not saves:
        raise UsageError(
            f"the script never saved while it took {steps} steps, so there is nothing to resume from",
            "let it save every few steps; if it saves in some other way, say when with --saved-at STEPS "
            "(seen are torch.save, safetensors, torch.distributed.checkpoint, pickle, joblib and NumPy)",
        )
    if saves[0] >= steps:
        raise UsageError(
            f"the script saves after its last step only, step {steps - 1}: a training that is stopped before "
            "has nothing to resume from",
            "save every few steps, or give it more steps to take",
        )
    if request.kills and saves[0] == steps - 1:
        raise UsageError(
            f"--kills: the first save is made when {saves[0]} of {steps} steps are done, so none is left to choose",
            "save earlier, give it more steps to take, or leave --kills out",
        )
    for step in request.at:
        if step >= steps - 1:
            raise UsageError(f"--at {step}: the script takes {steps} steps, so none is left after that one")
        if saves[0] > step:
            raise UsageError(
                f"--at {step}: nothing is saved before; the first save is made when {saves[0]} steps are done"
            )


def need_one_training(run: Run) -> None:
    """Raise SamebitsError where several processes or threads of one rank train: only one of them would be compared."""
    ranks = [recording.rank for recording in run.folder.recordings() if recording.steps]
    if len(ranks) > len({*ranks}):
        raise SamebitsError(
            f"{len(ranks)} processes or threads of the script train, and a resume is judged where one does",
            "start them with torchrun, so that each has a rank, or train one at a time",
        )


def need_repeat(whole: Recorded, again: Run) -> None:
    """Raise SamebitsError where two runs train differently; saved files may be torn, and are judged where loaded."""
    tracks = tracks_of(again.folder.recordings())
    sides = [RankPair(whole.tracks[rank], tracks[rank], Start(0)) for rank in whole.tracks.keys() & tracks.keys()]
    rows = [row for side in sides if (row := side.first_trained()) is not None]
    if rows:
        raise SamebitsError(
            "the script does not repeat even when it is not interrupted: two runs with everything pinned diverge at "
            f"step {min(rows)}",
            "samebits check says why: fix that first; then the resume can be judged",
        )


class _ResumeTrial:
    """A killed training, and the runs that resume from what it left, each given back something else.

    Attributes:
        best_comparison: that of the resumed run whose first difference is the latest.
        lacks: what differs from the killed run, and was not found to matter.
        tried: what was given back, and how far the run agreed then.
    """

    best_comparison: ResumeComparison

    def __init__(self, request: ResumeRequest, pool: RunPool, whole: Recorded, killed: Recorded) -> None:
        self.request, self.pool, self.whole, self.killed = request, pool, whole, killed
        self.last: int | None = None
        self.given = Restoration(str(killed.run.path))
        self.runs: list[int] = []
        self.lacks: list[Lacks] = []
        self.tried: dict[Restoration, ResumeComparison | None] = {}

    def trial(self, most: int | None) -> Trial:
        """Make the first resumed run and judge it; where it differs, find out with further runs what it lacks."""
        whole, seen = self.whole, self.killed.seen
        left = whole.steps - seen.last_save
        is_to_the_end = most is None and whole.is_whole
        compared = max(1, left if most is None else min(left, most))
        self.last = (
            None if is_to_the_end else next(iter(whole.tracks.values())).undone(seen.steps_saved[0]) + compared - 1
        )
        resumed = self._run(self.given)
        run = resumed.run
        after = max(stop.step for stop in seen.stops)
        loaded = loaded_files(seen, resumed.seen)
        trial = Trial(self.request.signal, after, seen.torn, runs=(self.killed.run.id, run.id), loaded=loaded)
        trouble = self._why_not(run, trial)
        if trouble is not None:
            return replace(trial, error=trouble)
        looked = compare_resumed(whole, self.killed, resumed, self.given)
        if looked is not None and looked.first is not None and looked.sides[0].start.row:
            # What a resume lacks is what it lacks after the steps that are undone.
            self.given = replace(self.given, undone=looked.sides[0].start.row)
            looked = compare_resumed(whole, self.killed, self._run(self.given), self.given)
        if looked is None:
            # The resumed run ended without an error and trained nothing: to it, the training was over.
            trial = replace(trial, checkpoint=checkpoint_of(seen, *loaded_checkpoint(seen, resumed.seen)))
            return _ended_too_early(trial, "takes no step at all", whole.steps - after - 1)
        self.best_comparison, self.lacks = looked, looked.lacks
        start = looked.sides[0].start
        if start.step > seen.most_done:
            raise SamebitsError(
                f"it resumed at step {start.step}, but it was killed earlier, after step {after}",
                "did it load what another training has saved? {run} in the command is each run's own folder",
            )
        trial = replace(
            trial,
            loaded=trial.loaded if looked.is_loaded else (),
            saved_step=None if start.is_from_the_start else start.step,
            resumed_step=start.step,
            compared=min(one.rows for one in looked.sides),
            is_to_the_end=is_to_the_end and run.stopped_after is None,
            checkpoint=looked.checkpoint,
        )
        if not trial.compared:
            none = f"it resumed at step {start.step}, and the uninterrupted run took {whole.steps} steps"
            hint = "give a step further from the end with --at"
            return replace(trial, error=SamebitsError(f"{none}: no step is left to compare", hint))
        if start.is_from_the_start:
            return replace(trial, missing=(self._not_resumed(),))
        return self._judged(trial, run)

    def _judged(self, trial: Trial, run: Run) -> Trial:
        """Compare every step; where one differs, find out why."""
        whole, looked = self.whole, self.best_comparison
        first = looked.first
        if first is None:
            # Every step agrees, but the run may have ended too early; one that samebits ended did not.
            side = looked.sides[0]
            left = whole.steps - side.start.step
            if not side.b.is_complete or side.b.steps >= left or run.stopped_after is not None:
                return trial
            return _ended_too_early(trial, f"ends after {side.b.steps} steps", left)
        divergence = looked.divergence(first)
        if divergence.step > trial.killed_after:
            # The killed run has shown that the script repeats as far as the kill; one more run shows the later steps.
            need_repeat(whole, self.pool.run(repeated_run(self.request, divergence.step)))
        missing, lacks = tuple(self.missing()), tuple(self.lacks)
        return replace(trial, divergence=divergence, missing=missing, runs=(*trial.runs, *self.runs), lacks=lacks)

    def _not_resumed(self) -> Missing:
        """Return the finding that the resumed run starts from the beginning."""
        looked = self.best_comparison
        path = Path(looked.checkpoint.path).name if looked.is_loaded else ""
        saved_at = None if looked.is_loaded else min(self.request.saved_at, default=None)
        return not_resumed(looked.sides[0], path, Path(self.killed.seen.torn).name, saved_at)

    def _run(self, restored: Restoration, what: str = "") -> Recorded:
        spec = resumed_run(self.request, self.last, restored, what)
        return Recorded(self.pool.run(spec, command=self.request.again))

    def _why_not(self, run: Run, trial: Trial) -> SamebitsError | None:
        """Return why a resumed run cannot be judged, with a hint for a script that fails at its second start."""
        if run.trouble is not None or run.timed_out:
            return why_unjudgeable([run])
        if run.succeeded:
            return None
        lines = "\n".join(f"  {line}" for line in run.facts.stderr_tail) or "  (it printed nothing on stderr)"
        where, failure = f"after step {trial.killed_after}", "failed"
        if trial.torn:
            where, failure = f"while it saved {Path(trial.torn).name}", "could not start from an intact checkpoint"
        ended = f"it {run.described}; the end of its output:\n{lines}"
        return ScriptFailedError(
            f"killed {where} and started again, the command {failure}: {ended}",
            _hint_for_failure(run, trial.torn, self.request.again != self.request.command),
        )

    # ---- what it lacks, by experiment

    def missing(self) -> list[Missing]:
        """Return the missing states, the first cause first: confirmed, if with all of them no difference is left."""
        # Whatever moves the first difference is given back with what did before.
        parts, torn, suspects = list[_Part](), list[Missing](), list[Missing]()
        while (first := self.best_comparison.first) is not None:
            looked = self.best_comparison
            suspects = suspected(*first, {one.a.rank: one for one in looked.sides})
            torn = [Missing("snapshot", _ASIDE, first[0].a.rank)] if looked.is_aside and first[1] == 0 else []
            # The older content of the checkpoint is right; its parameters were trained on while it was saved.
            is_torn = torn and any(one.state in ("position", "parameters") for one in suspects)
            more = self._next(first, torn if is_torn else suspects, parts)
            if not more:
                # Generators that could be given back were already right at that moment: another cause moves them later.
                suspects = [one for one in suspects if one.state != "generators" or not looked.to_give_back(first, one)]
                break
            parts += more
        if self.best_comparison.first is None:
            return [one.missing(is_confirmed=True) for one in self._needed(parts)]
        # What moves the first difference within its step only is no finding, unless the recordings show it, too.
        return [one.missing() for one in parts if one.moves_to is not None or one.said] or torn or suspects

    def _next(self, first: First, suspects: Sequence[Missing], parts: Sequence[_Part]) -> list[_Part]:
        """Return what moves the first difference if it is given back, too; several at once have to leave none."""
        for more in self._candidates(first, suspects):
            looked = self._with([*parts, *more])
            if looked is None or position(looked.first) <= position(first) or (looked.first and len(more) > 1):
                continue
            self.best_comparison = looked
            self.lacks = [lack for lack in self.lacks if not any(lack in one.lacks for one in more)]
            moves_to = looked.first[2].step if looked.first and looked.first[1] > first[1] else None
            return [replace(one, moves_to=moves_to) for one in more]
        return []

    def _candidates(self, first: First, suspects: Sequence[Missing]) -> Iterator[list[_Part]]:
        """Yield what may be missing, the likeliest first: each state by itself, and then all of them together."""
        looked = self.best_comparison
        for suspect in suspects:
            timed = looked.to_give_back(first, suspect)
            if timed is not None:
                # Generators restored the order, so it is drawn from them, whichever epoch it looked like.
                state: State = "order" if suspect.state == "epoch" else suspect.state
                yield [_Part(state, timed=timed, said=replace(suspect, state=state))]
        groups = states_by_likelihood(self.lacks, first[2].stream)
        if looked.sides[0].b_fetched:
            # A loader's generators are given back at the moment when it draws, as above.
            groups.pop("generators", None)
        # A buffer is of no use without its fill level.
        tries = [*groups.items(), *(("replay", held) for held in grouped_by_object(groups))]
        # A group may hold what the script resumes with, such as the loaded checkpoint: test its values one by one.
        multiple = (state for state, own in groups.items() if state in MULTI_VALUED and len(own) > 1)
        tries += [(state, [one]) for state in multiple for one in groups[state]]
        # If the indices already say what is wrong with the data, the values given back say where that comes from.
        said = next((one for one in suspects if one.state in ("epoch", "order", "position", "rank-state")), None)
        yield from ([_Part(state, tuple(group), said=said)] for state, group in tries)
        if len(groups) > 1:
            yield [_Part(state, tuple(group)) for state, group in groups.items()]

    def _needed(self, parts: Sequence[_Part]) -> list[_Part]:
        """Leave out each part in turn, or half of its values; return those without which a difference is left."""
        needed = list(parts)
        for part in parts:
            rest = [one for one in needed if one is not part]
            looked = self._with(rest) if rest else None
            needed = rest if looked and not looked.first else [*rest, self._halved(part, rest)]
        return needed

    def _halved(self, part: _Part, rest: Sequence[_Part]) -> _Part:
        middle = len(part.lacks) // 2 if part.state in MULTI_VALUED else 0
        for half in (part.lacks[:middle], part.lacks[middle:]) if middle else ():
            if (looked := self._with([*rest, fewer := replace(part, lacks=half)])) and not looked.first:
                return self._halved(fewer, rest)
        return part

    def _with(self, parts: Sequence[_Part]) -> ResumeComparison | None:
        """Compare a run that is given these parts back; None where it begins elsewhere, or ends before others do."""
        timed = next((part.timed for part in parts if part.timed is not None), self.given)
        restored = replace(timed, slots=tuple(sorted({lack.path for part in parts for lack in part.lacks})))
        if restored not in self.tried and len(self.runs) < MOST_TRIES:
            resumed = self._run(restored, listed([part.state for part in parts]))
            self.runs.append(resumed.run.id)
            looked = compare_resumed(self.whole, self.killed, resumed, restored) if resumed.run.succeeded else None
            one, best = (own.sides[0] for own in (looked or self.best_comparison, self.best_comparison))
            is_like = one.start.step == best.start.step and one.rows >= best.rows
            self.tried[restored] = looked if is_like else None
        return self.tried.get(restored)


@dataclass(frozen=True)
class _Part:
    """A state that is given back, by itself or with others.

    Attributes:
        lacks: the values that are given back.
        timed: where it is no values: generators or a place in an epoch, and when to give them back.
        said: what the recordings say of it.
        moves_to: the step of the first difference that is left, where it is a later one.
    """

    state: State
    lacks: tuple[Lacks, ...] = ()
    timed: Restoration | None = None
    said: Missing | None = None
    moves_to: int | None = None

    def missing(self, is_confirmed: bool = False) -> Missing:
        """Return the missing state, with what shows that it is missing."""
        said = self.said or Missing(self.state, "", self.lacks[0].rank)
        evidence = "; ".join(filter(None, (said.evidence, differences_clause(self.lacks) if self.lacks else "")))
        return replace(
            said, evidence=evidence, confirmed=is_confirmed, moves_to=None if is_confirmed else self.moves_to
        )


def _ended_too_early(trial: Trial, what: str, left: int) -> Trial:
    return replace(trial, missing=(Missing("epoch", f"{what}, and {left} were left"),))


def _hint_for_failure(run: Run, torn: str, has_with: bool) -> str:
    if torn:
        return "write to another name, and rename it when it is whole; keep the one before, and go back to that"
    if has_with:
        return f"it was started with the arguments of --with; the whole output is in {run.folder.stderr}"
    if "exists" in run.facts.last_words.lower():
        return "it makes a folder that exists; give what it needs to resume with --with, such as --with '--resume'"
    return "does it need other arguments to resume? Give them with --with, such as --with '--resume {run}/last.pt'"
