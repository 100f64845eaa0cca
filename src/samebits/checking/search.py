"""What a check decides, from the first runs to causes and a remedy: pure, plans out and runs in.

    first      control, control again, varied                              do they agree?
    round      everything held still, one factor at a time let go          which factor is it, and how sure is that?
    lines      that factor changed at some of its lines only               which line is it?
    remedy     the guilty factors held still, nothing else                 does that cure it, to the end?

Where the remedy's runs diverge later on, or as soon as the rest is varied, the next round explains that, with those
pins held.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from samebits.base.errors import SamebitsError
from samebits.checking.asking import Asking, BudgetSpentError
from samebits.checking.facts import Entry
from samebits.checking.first import earliest, first_divergence, trained_alike
from samebits.checking.leftovers import LeftBehind, first_run_effect, left_behind
from samebits.checking.lines import GuiltyLine, guilty_places, places_of
from samebits.checking.made import Made, made_by
from samebits.checking.round import RemedyTrial, Round
from samebits.checking.suspects import Suspect
from samebits.checking.treatments import Inquiry, varying_between_runs
from samebits.checking.verdict import Cause, DivergentRuns, Remedy, Run, Unknown
from samebits.checking.wholly import HeldWhole, held_whole
from samebits.factors.catalog import find, in_order

SEEDED_LATE, LIBRARY = "drawn before it was seeded", "a library"


@dataclass
class Found:
    """What is known so far; kept outside the search, so that a search cut short loses nothing.

    Attributes:
        error: why nothing can be judged.
        divergent: where the first runs diverge; None where they agree.
        alike: runs to the end, made where those differ in what else happened only; the last one may not be like them.
        rounds: the experiments that were made.
        places: factor → the lines to mend.
        made: what the runs have made.
        left: what the experiment showed with what a run leaves for the next one; None where it was not made.
        whole: what a factor that is held whole cures; None where there is none, or it was not tried.
        untested: what could not be tried, and why.
        stopped: the runs were used up, or a signal ended them.
        signal: which one.
    """

    error: SamebitsError | None = None
    divergent: DivergentRuns | None = None
    alike: tuple[Run, ...] = ()
    rounds: list[Round] = field(default_factory=list)
    places: dict[str, list[GuiltyLine]] = field(default_factory=dict)
    made: Made = field(default_factory=Made)
    left: LeftBehind | None = None
    whole: HeldWhole | None = None
    untested: list[str] = field(default_factory=list)
    stopped: bool = False
    signal: int | None = None

    @property
    def causes(self) -> list[Cause]:
        """The causes, those first that drift; each is one thing to mend."""
        found = [] if self.left is None else self.left.causes
        found += [] if self.whole is None else [self.whole.cause]
        found += [cause for one in self.accused for cause in self._causes_of(one)]
        return sorted(found, key=lambda cause: not cause.varies_between_runs)

    @property
    def accused(self) -> list[Suspect]:
        """Those that still stand: a later round may have shown that nothing repeats where they differ."""
        return [one for one in self.rounds[-1].accused if one.stands] if self.rounds else []

    def _causes_of(self, suspect: Suspect) -> list[Cause]:
        factor, facts = find(suspect.name), suspect.held.base.facts
        lucky = facts.read_lines.get(suspect.name, ()) if factor.found_statically else ()
        if lucky:
            read = [GuiltyLine(lucky[0], tuple(lucky[1:]))]
        evidence = self.rounds[-1].evidence(suspect)
        late = facts.late_seeds.get(suspect.name)
        what = SEEDED_LATE if late and factor.fixed_once else factor.explanation
        return [
            Cause(
                suspect.name,
                None if place.entry is None else place.entry.site,
                factor.varies_between_runs,
                what.format(what=place.entry.what if place.entry else LIBRARY),
                evidence,
                called=place.entry.what if place.entry else "",
                script=place.entry.script if place.entry else "",
                source=place.entry.source if place.entry else "",
                likely=bool(lucky),
                others=tuple(entry.site for entry in place.company),
                fixed_together=factor.fixed_once,
                shown_by=facts.shown.get((suspect.name, place.entry.site.key), ()) if place.entry else (),
                seeded_late=late,
                divergent=suspect.divergent,
            )
            for place in (read if lucky else self.places.get(suspect.name) or places_of(suspect))
        ]

    @property
    def remedy(self) -> Remedy | None:
        """The last one that was tried; it holds all causes found so far."""
        if self.whole is not None:
            own, compare = self.whole.remedy, self.rounds[-1].inquiry.compare
            return self.whole.cure(earliest(own, compare) if own else None)
        names = {one.name for one in self.accused}
        trials = [(round_, one) for round_ in self.rounds for one in round_.trials if names and names <= {*one.pins}]
        return self._remedy(*trials[-1]) if trials else None

    def _remedy(self, round_: Round, trial: RemedyTrial) -> Remedy:
        own = [run for run in trial.runs if round_.held.differ(trial.runs[0], run) is None]
        evidence = [self.rounds[-1].evidence(one) for one in self.accused]
        varied = trial.whole[1].id if len(trial.whole) > 1 else None
        is_fix = bool(trial.holds) and trial.later is None and varied is not None
        return Remedy(
            trial.pins,
            is_fix and all(one.is_enough for one in evidence),
            diverged=None if trial.later is None else (trial.later.a, trial.later.b),
            runs=tuple(run.id for run in own),
            whole=tuple(run.id for run in trial.whole),
            varied=varied,
            chance=max(one.chance for one in evidence),
            failure=trial.failure,
        )

    @property
    def unknown(self) -> Unknown | None:
        """Runs that diverge with everything pinned, or with the remedy and nothing else to suspect."""
        if not self.rounds or (self.whole is not None and self.whole.cause.confirmed):
            return None
        last = self.rounds[-1]
        unsteady = last.inquiry.unsteady
        if unsteady is not None:
            results, runs = last.held.results()
            is_held = {unsteady.a, unsteady.b} <= {run.id for run in last.held.runs}
            seen = (results, runs) if is_held else (2, 2)
            return Unknown(unsteady, is_held, *seen, witnessed=_witnessed(last))
        if self.stopped or last.failure:
            return None
        if last.trials:
            later = last.trials[-1].later
            return None if later is None else Unknown(later, False, witnessed=_witnessed(last))
        lineup, untried = last.lineup, tuple(self.waiting)
        return Unknown(
            last.at, False, witnessed=_witnessed(last), acquitted=tuple(in_order(lineup.acquitted)), untried=untried
        )

    @property
    def waiting(self) -> list[str]:
        """Factors that were to be released, and were not."""
        return in_order(self.rounds[-1].lineup.waiting) if self.rounds else []


def look(inquiry: Inquiry, found: Found) -> Asking[None]:
    """All of it; what was found is in `found`, however far the runs last."""
    try:
        first = yield from first_divergence(inquiry)
        if isinstance(first, SamebitsError):
            found.error = first
        elif first is None:
            found.made = yield from made_by(inquiry, inquiry.made)
            if found.made.at is not None:
                found.divergent = found.made.at
                yield from _explain(inquiry, found.made.at, found)
                return
            found.left = yield from left_behind(inquiry, inquiry.made)
            found.divergent = None if found.left is None else found.left.divergent
            if found.left is not None and found.left.unsteady is not None:
                found.divergent, found.left = found.left.unsteady, None
                yield from _explain(inquiry, found.divergent, found)
        else:
            found.divergent = first
            found.alike = yield from trained_alike(inquiry, first)
            found.made = yield from made_by(inquiry, found.alike)
            found.left = yield from first_run_effect(inquiry, inquiry.made[0])
            if found.left is None:
                yield from _explain(inquiry, first, found)
    except BudgetSpentError as spent:
        found.stopped, found.signal, found.error = spent.trouble is None, spent.signal, spent.trouble


def _explain(inquiry: Inquiry, divergent: DivergentRuns, found: Found) -> Asking[None]:
    """Causes and remedies in turn, until a remedy holds to the end or no suspect is left."""
    at, round_ = divergent, None
    while True:
        round_ = Round(inquiry, at, _suspects(inquiry, at), round_)
        found.rounds.append(round_)
        yield from round_.begin()
        if round_.failure:
            found.untested.append(round_.failure)
            return
        trial = yield from round_.explain()
        for suspect in round_.accused:
            if suspect.proven and suspect.name not in found.places:
                found.places[suspect.name] = yield from guilty_places(suspect)
        if round_.held.is_hopeless():
            found.whole = yield from held_whole(round_)
            return
        if trial is None or not (yield from round_.show()):
            return
        if trial.later is None and not found.made.follows and found.made.at is None:
            found.made = yield from made_by(inquiry, trial.whole, trial.pins)
            trial.later = found.made.at
        if trial.later is None:
            alike = [run for run in trial.runs if run not in trial.whole]
            found.left = yield from left_behind(inquiry, [*trial.whole, *alike])
            return
        at = trial.later


def _suspects(inquiry: Inquiry, at: DivergentRuns) -> list[str]:
    """Runs that were treated alike accuse what they had free; a varied run what was varied, and only then the rest."""
    return [*at.varied, *(name for name in varying_between_runs() if name not in at.varied)]


def _witnessed(round_: Round) -> tuple[tuple[str, Entry], ...]:
    """Every factor that entered a held run, with its first line, but for those that were found guilty."""
    if not round_.held.runs:  # the runs were used up before
        return ()
    guilty = {one.name for one in round_.accused}
    facts = round_.held.base.facts
    read = {name: lines for name, lines in facts.read_lines.items() if find(name).held_in_part}
    entries = {**facts.entries, **read}
    return tuple((name, entries[name][0]) for name in in_order(entries) if entries[name] and name not in guilty)
