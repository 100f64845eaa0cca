"""From a script to what its resume lacks: runs are made, killed and started again; `missing` says what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from samebits.base.errors import InterruptError, SamebitsError, ScriptFailedError, UsageError
from samebits.base.sites import Site
from samebits.checking.pool import BudgetSpentError, RunPool
from samebits.checking.unjudgeable import why_unjudgeable
from samebits.checking.verdict import Run
from samebits.comparison.locate import Divergence, Position
from samebits.comparison.runs import saved_beside
from samebits.resuming.missing import SEVERAL, in_one_object, likely, not_resumed, suspected, told, wrong_generators
from samebits.resuming.plan import Kill, ResumeRequest, again_run, killed_run, kills, resumed_run, uninterrupted_run
from samebits.resuming.seen import Seen, loads_of, read_seen, what_it_lacks, what_was_loaded
from samebits.resuming.tracks import First, Side, Start, first_divergence, position, start_of, tracks_of
from samebits.resuming.verdict import Missing, Resumption, SavedCheckpoint, State, Trial
from samebits.runfolder.notes import Lacks, Loaded, Saved, Unseen, read_notes
from samebits.runfolder.removal import remove
from samebits.runfolder.spec import Moment, Restored

# So many runs are made at most to find out what one resume lacks.
MOST_TRIES = 16

_ASIDE = (
    "saved in another thread while the training went on: what the file holds was written to meanwhile, and is of a "
    "later step than it says"
)
NEVER_REPEATS = "the script does not repeat even when it is not interrupted"


def run_resume(request: ResumeRequest, pool: RunPool) -> Resumption:
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


class _Testing:
    """One test, run by run."""

    def __init__(self, request: ResumeRequest, pool: RunPool) -> None:
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
            if self.trials[-1].differs and not (self.request.at or self.request.kills):
                break

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

    def _trial(self, kill: Kill) -> Trial:
        assert self.whole is not None
        killed = self.pool.run(killed_run(self.request, kill, str(self.whole.path)))
        self.need_repeat(killed)
        try:
            return _Resumed(self, killed, self._stopped(killed, kill)).trial(kill.most)
        finally:
            for state in killed.path.glob("kept.*"):
                remove(state)

    def need_repeat(self, again: Run) -> None:
        """In what it trains: what is saved beside may be torn by its own saving, and is judged where it is loaded."""
        tracks = tracks_of(again.outcome.folder.recordings())
        sides = [Side(self.tracks[rank], tracks[rank], Start(0)) for rank in self.tracks.keys() & tracks.keys()]
        found = [row for side in sides if (row := side.first_trained()) is not None]
        if found:
            raise SamebitsError(
                f"{NEVER_REPEATS}: two runs with everything pinned diverge at step {min(found)}",
                "samebits check says why; a resume can be judged when that is mended",
            )

    def _stopped(self, killed: Run, kill: Kill) -> Seen:
        if killed.trouble is not None:
            raise killed.trouble
        seen = read_seen(killed.path)
        if not seen.stops:
            what = "within a save" if self.request.during_save else f"after step {kill.after}"
            raise ScriptFailedError(
                f"the run that was to be stopped {what} {killed.outcome.described} before, after {killed.steps} steps",
                f"the whole output is in {killed.outcome.folder.stderr}",
            )
        return seen


class _Resumed:
    """A training that was killed, and the runs that go on from what it left, each with one thing more given back.

    Attributes:
        given: what helped.
        looked: the resumed run with that.
        runs: numbers of those that were made.
        lacks: what is held otherwise, and was not found to matter.
        refuted: what was given back as it had been, and changed nothing.
    """

    looked: _Looked

    def __init__(self, testing: _Testing, killed: Run, seen: Seen) -> None:
        self.testing, self.killed, self.seen = testing, killed, seen
        self.last: int | None = None
        self.given = Restored(str(killed.path))
        self.runs: list[int] = []
        self.lacks: list[Lacks] = []
        self.refuted: set[State] = set()

    def trial(self, most: int | None) -> Trial:
        """The first of them, judged; where it differs, further ones say what it lacks."""
        testing, seen = self.testing, self.seen
        assert testing.whole is not None
        left = testing.steps - seen.last_save
        is_to_the_end = most is None and testing.whole.facts.stopped_after is None
        self.last = None if is_to_the_end else max(1, left if most is None else min(left, most)) - 1
        run = self._run(self.given)
        after = max(stop.step for stop in seen.stops)
        trial = Trial(testing.request.signal, after, seen.torn, runs=(self.killed.id, run.id))
        trouble = self._why_not(run, trial)
        if trouble is not None:
            return replace(trial, error=trouble)
        looked = _Looked.at(testing, self.killed, seen, run)
        if looked is None:
            # It ended well and trained nothing: for it, the training was over.
            left = testing.steps - after - 1
            checkpoint = _checkpoint(seen, *what_was_loaded(seen, read_seen(run.path)))
            over = Missing("epoch", f"takes no step at all, and {left} were left", location=checkpoint.saved_at)
            return replace(trial, checkpoint=checkpoint, missing=(over,))
        side = looked.sides[0]
        start = side.start
        if start.step > seen.most_done:
            raise SamebitsError(
                f"it resumed at step {start.step}, later than it was killed, after step {after}",
                "did it load what another training has saved? {run} in the command is a folder of each run's own",
            )
        trial = replace(
            trial,
            saved_step=None if start.is_from_the_start else start.step,
            resumed_step=start.step,
            compared=min(one.rows for one in looked.sides),
            is_to_the_end=is_to_the_end and run.facts.stopped_after is None,
            loaded=loads_of(seen, read_seen(run.path)),
            checkpoint=looked.checkpoint,
        )
        if not trial.compared:
            return replace(trial, error=_none_to_compare(start.step, testing.steps))
        if start.is_from_the_start:
            return replace(trial, missing=(looked.not_resumed(),))
        first = looked.first()
        if first is None:
            # Every step agrees: does it also take as many? A run that was ended by us is no shorter than it was to be.
            left = testing.steps - start.step
            if not side.b.is_complete or side.b.steps >= left or run.facts.stopped_after is not None:
                return trial
            evidence = f"ends after {side.b.steps} steps, and {left} were left"
            return replace(trial, missing=(Missing("epoch", evidence, location=looked.checkpoint.saved_at),))
        divergence = looked.divergence(first)
        if divergence.step > after:
            # The killed run has shown that the script repeats, as far as it went; another one shows the rest.
            testing.need_repeat(testing.pool.run(again_run(testing.request, divergence.step)))
        self.looked, self.lacks = looked, looked.lacks
        missing = tuple(replace(one, location=looked.location) for one in self.missing())
        return replace(
            trial, divergence=divergence, missing=missing, runs=(*trial.runs, *self.runs), lacks=tuple(self.lacks)
        )

    def _run(self, restored: Restored, what: str = "") -> Run:
        request = self.testing.request
        return self.testing.pool.run(resumed_run(request, self.last, restored, what), command=request.again)

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
            _hint_for_failure(run, trial.torn, self.testing.request.again != self.testing.request.command),
        )

    # ---- what it lacks, by experiment

    def missing(self) -> list[Missing]:
        """What is missing, the first cause first."""
        found: dict[State, Missing] = {}
        while (first := self.looked.first()) is not None:
            said = suspected(*first, {one.a.rank: one for one in self.looked.sides})
            torn = [Missing("snapshot", _ASIDE, first[0].a.rank)] if self.looked.is_aside and first[1] == 0 else []
            if {"position", "parameters"} & {one.state for one in said}:
                # What is older than the parameters is right, and these were still trained.
                said = torn or said
            confirmed = self._next(first, said)
            said = [one for one in said if one.state not in self.refuted]
            if not confirmed:
                said = torn or said
                # What is only suspected is told of where nothing is known, not of what may follow from what is.
                found |= {} if found else {one.state: one for one in said}
                break
            found |= {one.state: one for one in confirmed if one.state not in found}
        return list(found.values())

    def _next(self, first: First, said: Sequence[Missing]) -> list[Missing]:
        """What explains the first difference, confirmed."""
        for one in said:
            restored = self.looked.cure(first, one, self.given)
            if restored is None:
                continue
            if self._helps(restored, one.state, first):
                # An order that generators cure is drawn from them, whatever epoch it looked like.
                return [replace(one, state="order" if one.state == "epoch" else one.state, confirmed=True)]
            if one.state == "generators":
                # They stood as they should then: where they stand later follows from something else.
                self.refuted.add(one.state)
        groups = likely(self.lacks, first[2].stream)
        if self.looked.has_loader:
            # What a loader draws from is given back when it draws.
            groups.pop("generators", None)
        return self._narrowed(first, groups, said)

    def _narrowed(self, first: First, groups: Mapping[State, list[Lacks]], said: Sequence[Missing]) -> list[Missing]:
        """Each state by itself, the likely ones first; else everything."""
        before = self.looked, self.given
        tries = list(groups.items())
        # A buffer is of no use without the place to which it is filled.
        tries += [("replay", held) for held in in_one_object(groups)]
        # Among several may be what the script resumes with, such as the checkpoint itself: then one by one.
        tries += [(state, [one]) for state, own in groups.items() if state in SEVERAL and len(own) > 1 for one in own]
        for state, group in tries:
            if self._helps(self._with(group), state, first):
                return [self._named(first, state, group, said, *before)]
        everything = [one for group in groups.values() for one in group]
        if len(groups) > 1 and self._helps(self._with(everything), "all that differs", first):
            # Only together: each of them is missing.
            self.lacks = []
            return [Missing(state, told(group), group[0].rank, confirmed=True) for state, group in groups.items()]
        return []

    def _named(
        self, first: First, state: State, group: list[Lacks], said: Sequence[Missing], looked: _Looked, given: Restored
    ) -> Missing:
        """Which one of several it is, by halves."""
        best = self.looked, self.given
        while state in SEVERAL and len(group) > 1:
            for half in (group[: len(group) // 2], group[len(group) // 2 :]):
                self.looked, self.given = looked, given
                if self._helps(self._with(half), state, first, best[0]):
                    best, group = (self.looked, self.given), half
                    break
            else:
                break
        self.looked, self.given = best
        self.lacks = [one for one in self.lacks if one not in group]
        # Of data that are known by their indices it was read what is wrong with them; this says where that comes from.
        by_data = next((one for one in said if one.state in ("epoch", "order", "position", "rank-state")), None)
        if by_data is not None:
            return replace(by_data, evidence=f"{by_data.evidence}; {told(group)}", confirmed=True)
        return Missing(state, told(group), group[0].rank, confirmed=True)

    def _with(self, lacks: Sequence[Lacks]) -> Restored:
        paths = dict.fromkeys((*self.given.slots, *(one.path for one in lacks)))
        return replace(self.given, slots=tuple(paths))

    def _helps(self, restored: Restored, what: str, first: First, best: _Looked | None = None) -> bool:
        """Whether the training then agrees beyond that place, or as far as the best; what it was given then stays."""
        if len(self.runs) >= MOST_TRIES:
            return False
        run = self._run(restored, what)
        self.runs.append(run.id)
        looked = _Looked.at(self.testing, self.killed, self.seen, run) if run.succeeded else None
        if looked is None or looked.sides[0].start.step != self.looked.sides[0].start.step:
            return False
        place = looked.place
        if place is not None and place <= position(first):
            return False
        if place is not None and best is not None and (best.place is None or place < best.place):
            return False
        self.looked, self.given = looked, restored
        return True


@dataclass(frozen=True)
class _Looked:
    """A resumed run beside the uninterrupted one, rank by rank."""

    sides: Sequence[Side]
    checkpoint: SavedCheckpoint
    is_loaded: bool
    lacks: list[Lacks]
    torn: str = ""
    told: int | None = None
    is_aside: bool = False

    @classmethod
    def at(cls, testing: _Testing, killed: Run, stopped: Seen, run: Run) -> _Looked | None:
        """None where it took no step."""
        seen, tracks = read_seen(run.path), tracks_of(run.outcome.folder.recordings())
        if not tracks:
            return None
        assert testing.whole is not None
        saved, loaded = what_was_loaded(stopped, seen)
        is_loaded = loaded is not None or bool(testing.request.saved_at)
        known = saved.steps if saved is not None else (stopped.last_save or None) if is_loaded else None
        beside = saved_beside(*(one.outcome.folder.recordings() for one in (testing.whole, killed)))
        steady, sides = frozenset(name for name, agrees in beside.items() if agrees), []
        for rank in sorted(testing.tracks.keys() & tracks.keys()):
            a, b = testing.tracks[rank], tracks[rank]
            start = start_of(a, b, known, stopped.most_done)
            fetched = testing.seen.of_rank(rank), seen.of_rank(rank)
            side = Side(a, b, start, stopped.counts_at(start.step), *fetched, steady)
            if known is not None and known != start.step and not start.is_from_the_start and side.has_other_data:
                # Parameters of one file, and the rest of another one that is newer: the data say how far it was.
                other = replace(side, start=Start(known, has_parameters=False), counts=stopped.counts_at(known))
                side = side if other.has_other_data else other
            sides.append(side)
        if saved is None or saved.steps != sides[0].start.step:
            saved = next((one for one in reversed(stopped.saves) if one.steps == sides[0].start.step), saved)
        told = None if loaded is not None else min(testing.request.saved_at, default=None)
        checkpoint, is_aside = _checkpoint(stopped, saved, loaded), saved is not None and saved.is_aside
        torn = Path(stopped.torn).name
        return cls(sides, checkpoint, loaded is not None, what_it_lacks(run.path), torn, told, is_aside)

    @property
    def place(self) -> Position | None:
        """Where it differs first."""
        first = self.first()
        return None if first is None else position(first)

    @property
    def has_loader(self) -> bool:
        """Whether loaders hand its data over."""
        return bool(self.sides[0].b_fetched)

    @property
    def location(self) -> Site | None:
        return self.checkpoint.saved_at or self.checkpoint.loaded_at

    def not_resumed(self) -> Missing:
        """It starts from the beginning."""
        path = Path(self.checkpoint.path).name if self.is_loaded else ""
        return replace(not_resumed(self.sides[0], path, self.torn, self.told), location=self.location)

    def first(self) -> First | None:
        """The first place at which it differs."""
        return first_divergence(self.sides)

    def divergence(self, first: First) -> Divergence:
        """The same with the ranks that differ there."""
        _, row, found = first
        own = (next(side.differences(row), None) for side in self.sides if row < side.rows)
        ranks = tuple(one.rank for one in own if one is not None and one.stream == found.stream)
        return replace(found, ranks=ranks if len(ranks) > 1 else ())

    def cure(self, first: First, suspect: Missing, given: Restored) -> Restored | None:
        """What to give back, and when, to see whether a suspected state is missing; None where that cannot be tried."""
        side, row, _ = first
        a, b = side.fetched(row)
        if row > 0 and suspect.state == "generators":
            a, b = side.fetched(0)
        if not a or not b or given.moment is not None:
            return None
        batch = side.b_fetched.index(b[0])
        if suspect.state in ("position", "look-ahead"):
            # Where in the epoch of the uninterrupted run that batch came.
            same = (one.position for one in side.a_fetched if one.indices and one.indices == b[0].indices)
            skip = a[0].position - next(same, b[0].position)
            return replace(given, moment="batch", batch=batch, skip=skip) if skip > 0 else None
        if suspect.state not in ("order", "epoch", "sample-generators", "generators"):
            return None
        # What the script has seeded itself by then is right, and stays; all where it restores some on its way.
        names = tuple(one.path for one in self.lacks if one.state == "generators")
        if suspect.state == "generators":
            known = side.a.column(0, "rng")
            names = (*wrong_generators(side, row), *(one for one in names if one not in known))
        moment: Moment = "iter" if a[0].position == 0 or suspect.state in ("order", "epoch") else "batch"
        return replace(given, moment=moment, batch=batch, names=names)


def _checkpoint(killed: Seen, saved: Saved | None, loaded: Loaded | None) -> SavedCheckpoint:
    if saved is None:
        saved = next((one for one in reversed(killed.saves) if one.steps > 0), None)
    path = loaded.path if loaded is not None and loaded.path else "" if saved is None else saved.path
    return SavedCheckpoint(path, None if saved is None else saved.site, None if loaded is None else loaded.site)


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
