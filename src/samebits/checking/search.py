"""What a check decides, from the first runs to causes and a remedy: pure, plans out and runs in.

    first      control, control again, varied                              do they agree?
    round      everything held still, one factor at a time let go          which factor is it, and how sure is that?
    lines      that factor changed at some of its lines only               which line is it?
    remedy     the guilty factors held still, nothing else                 does that cure it, to the end?

Where the remedy's runs diverge later on, or as soon as the rest is varied, the next round explains that, with those
pins held.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from samebits.base.errors import SamebitsError
from samebits.checking.asking import Asking, BudgetSpentError
from samebits.checking.evidence import LIMIT, chance_of_scatter, chance_of_split
from samebits.checking.facts import Entry
from samebits.checking.first import first_divergence
from samebits.checking.leftovers import LeftBehind, first_run_effect, left_behind
from samebits.checking.lines import Place, guilty_places, places_of
from samebits.checking.made import Made, made_by
from samebits.checking.round import Round, Trial
from samebits.checking.suspects import Suspect
from samebits.checking.treatments import Inquiry, varying_between_runs
from samebits.checking.verdict import Cause, DivergentRuns, Remedy, Run, Unknown
from samebits.factors.catalog import find, in_order

MAX_ROUNDS = 4
SEEDED_LATE, LIBRARY = "drawn before it was seeded", "a library"


@dataclass
class Found:
    """What is known so far; kept outside the search, so that a search cut short loses nothing.

    Attributes:
        error: why nothing can be judged.
        divergent: where the first runs diverge; None where they agree.
        rounds: the experiments that were made.
        places: factor → the lines to mend.
        made: what the runs have made.
        left: what the experiment showed with what a run leaves for the next one; None where it was not made.
        untested: what could not be tried, and why.
        stopped: the runs were used up, or a signal ended them.
        signal: which one.
    """

    error: SamebitsError | None = None
    divergent: DivergentRuns | None = None
    rounds: list[Round] = field(default_factory=list)
    places: dict[str, list[Place]] = field(default_factory=dict)
    made: Made = field(default_factory=Made)
    left: LeftBehind | None = None
    untested: list[str] = field(default_factory=list)
    stopped: bool = False
    signal: int | None = None

    @property
    def causes(self) -> list[Cause]:
        """The causes, those first that drift; each is one thing to mend."""
        found = [] if self.left is None else self.left.causes
        found += [cause for round_, one in self._accused for cause in self._causes_of(round_, one)]
        return sorted(found, key=lambda cause: not cause.varies_between_runs)

    @property
    def _accused(self) -> list[tuple[Round, Suspect]]:
        """Those that still stand: a later round may have shown that nothing repeats where they differ."""
        return [(round_, one) for round_ in self.rounds for one in round_.accused if round_.stands(one)]

    def _causes_of(self, round_: Round, suspect: Suspect) -> list[Cause]:
        factor, facts = find(suspect.name), round_.held.base.facts
        lucky = facts.read_lines.get(suspect.name, ()) if factor.found_statically else ()
        if lucky:
            read = [Place(lucky[0], tuple(lucky[1:]))]
        evidence = round_.evidence(suspect)
        late = facts.late_seeds.get(suspect.name)
        return [
            Cause(
                suspect.name,
                None if place.entry is None else place.entry.site,
                factor.varies_between_runs,
                SEEDED_LATE if late else factor.explanation.format(what=place.entry.what if place.entry else LIBRARY),
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
            for place in (read if lucky else self.places.get(suspect.name) or places_of(round_, suspect))
        ]

    @property
    def remedy(self) -> Remedy | None:
        """The last one that was tried; it holds all causes found so far."""
        trials = [(round_, trial) for round_ in self.rounds for trial in round_.trials]
        return _remedy(*trials[-1]) if trials and self._accused else None

    @property
    def unknown(self) -> Unknown | None:
        """Runs that diverge with everything pinned, or with the remedy and nothing else to suspect."""
        if not self.rounds:
            return None
        last = self.rounds[-1]
        unsteady = last.inquiry.unsteady
        if unsteady is not None:
            results, runs = last.held.results()
            is_held = {unsteady.a, unsteady.b} <= {run.id for run in last.held.runs}
            seen = (results, runs) if is_held else (2, 2)
            return Unknown(unsteady, is_held, *seen, witnessed=_witnessed(last))
        later = last.trials[-1].later if last.trials else None
        if later is None or self.stopped:
            return None
        return Unknown(later, False, witnessed=_witnessed(last))

    @property
    def waiting(self) -> list[str]:
        """Factors that were to be released, and were not."""
        return in_order(self.rounds[-1].lineup.candidates) if self.rounds else []

    @property
    def tried(self) -> int:
        return self.rounds[-1].lineup.tried if self.rounds else 0


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
        else:
            found.divergent = first
            found.left = yield from first_run_effect(inquiry, inquiry.made[0])
            if found.left is None:
                yield from _explain(inquiry, first, found)
    except BudgetSpentError as spent:
        found.stopped, found.signal, found.error = spent.trouble is None, spent.signal, spent.trouble


def _explain(inquiry: Inquiry, divergent: DivergentRuns, found: Found) -> Asking[None]:
    """Causes and remedies in turn, until a remedy holds to the end or no suspect is left."""
    at, pins = divergent, list[str]()
    for _ in range(MAX_ROUNDS):
        round_ = Round(inquiry, at, pins, _moving(inquiry, at), _suspects(inquiry, at), found.tried)
        found.rounds.append(round_)
        yield from round_.begin()
        if round_.failure:
            found.untested.append(round_.failure)
            return
        trial = yield from _remedied(round_, found)
        if trial is None:
            return
        if trial.later is None and not found.made.follows and found.made.at is None:
            found.made = yield from made_by(inquiry, trial.whole, trial.pins)
            trial.later = found.made.at
        if trial.later is None:
            alike = [run for run in trial.runs if run not in trial.whole]
            found.left = yield from left_behind(inquiry, [*trial.whole, *alike])
            return
        at, pins = trial.later, [*trial.pins]


def _remedied(round_: Round, found: Found) -> Asking[Trial | None]:
    """The first remedy that holds where this round began; None when no suspect is left."""
    while True:
        suspect = yield from round_.next_suspect()
        if suspect is None:
            return None
        if not (yield from round_.weigh(suspect)):
            continue
        trial = round_.trials[-1]
        found.places[suspect.name] = yield from guilty_places(round_, suspect)
        if trial.holds and (yield from round_.show(suspect)):
            return trial


def _moving(inquiry: Inquiry, at: DivergentRuns) -> list[str]:
    """What is held still: what moves by itself, and where a varied run is to be explained, what was varied in it."""
    return in_order([*varying_between_runs(), *at.varied])


def _suspects(inquiry: Inquiry, at: DivergentRuns) -> list[str]:
    """Runs that were treated alike accuse what they had free; a varied run what was varied, and only then the rest."""
    return [*at.varied, *(name for name in varying_between_runs() if name not in at.varied)]


def _remedy(round_: Round, trial: Trial) -> Remedy:
    """What its runs and the released ones say together."""
    own = [run for run in trial.runs if round_.held.differ(trial.runs[0], run) is None]
    base = round_.base_runs() if trial.is_base else own
    # Of the patterns that speak for it, each by itself is as rare as it is: the rarest one counts.
    chance = min((_chance(round_, suspect, base) for suspect in round_.accused), default=1.0)
    varied = trial.whole[1].id if len(trial.whole) > 1 else None
    is_fix = bool(trial.holds) and trial.later is None and varied is not None
    return Remedy(
        trial.pins,
        is_fix and chance < LIMIT,
        diverged=None if trial.later is None else (trial.later.a, trial.later.b),
        runs=tuple(run.id for run in own),
        whole=tuple(run.id for run in trial.whole),
        varied=varied,
        chance=chance,
        failure=trial.failure,
    )


def _chance(round_: Round, suspect: Suspect, base: Sequence[Run]) -> float:
    """That a coin makes the remedy's runs agree, and those in which this factor is released differ from them."""
    if not base:
        return 1.0
    if suspect.is_left_alone:
        return chance_of_scatter(len(base), len(suspect.runs), round_.strays(suspect))
    strays = sum(round_.held.differ(base[0], run) is not None for run in suspect.runs)
    return chance_of_split(len(base), strays)


def _witnessed(round_: Round) -> tuple[tuple[str, Entry], ...]:
    """Every factor that entered a held run, with its first line, but for those that were found guilty."""
    if not round_.held.runs:  # the runs were used up before
        return ()
    guilty = {*round_.pins, *(one.name for one in round_.accused)}
    facts = round_.held.base.facts
    read = {name: lines for name, lines in facts.read_lines.items() if find(name).held_in_part}
    entries = {**facts.entries, **read}
    return tuple((name, entries[name][0]) for name in in_order(entries) if entries[name] and name not in guilty)
