"""The decisions of a check, from the first runs to causes and a remedy: specs out, runs in, nothing is run here.

    first      control, control again, varied                              do they agree?
    round      everything held still, one factor at a time released        which factor is it, and how sure is that?
    lines      that factor changed at some of its lines only               which line is it?
    remedy     the guilty factors held still, nothing else                 does that fix it, to the end?

Where the remedy's runs diverge later on, or as soon as the rest is varied, the next round explains that, with the pins
of this remedy held.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from samebits.base.errors import SamebitsError
from samebits.checking.facts import Entry
from samebits.checking.first import ask_first_question, earliest, trained_alike
from samebits.checking.full_pin import FullPin, try_full_pin
from samebits.checking.inquiry import Asking, Inquiry
from samebits.checking.leftovers import LeftBehind, first_run_effect, left_behind
from samebits.checking.lines import GuiltyLine, guilty_lines, unsearched_line
from samebits.checking.plan import moving_factors
from samebits.checking.pool import BudgetSpentError
from samebits.checking.products import WHEN, ProductComparison, products_compared
from samebits.checking.round import RemedyTrial, Round
from samebits.checking.suspects import Suspect
from samebits.checking.verdict import Cause, DivergentRuns, Remedy, Run, Unknown
from samebits.comparison.products import Leaves
from samebits.factors.catalog import find, in_order
from samebits.factors.torch_algorithms import REPLACED

SEEDED_LATE, LIBRARY = "drawn before it was seeded", "something in a library"


@dataclass
class SearchState:
    """The findings so far, kept outside the search so that a search cut short loses nothing.

    Attributes:
        error: why nothing can be judged.
        divergent: where the first runs diverge; None where they agree.
        alike: runs to the end, where the first runs differ only in what else happened; the last one may differ.
        rounds: the experiments that were made.
        lines: factor → the lines to fix.
        product_comparison: the comparison of what the runs have made.
        leftover_result: the experiment with what a run leaves for the next one; None where it was not made.
        full_pin: the factor with which runs agree once it is held whole; None where there is none, or none was tried.
        untested: what could not be tried, and why.
        stopped: the runs were used up, or a signal ended them.
        signal: the signal that ended them; None where none did.
    """

    error: SamebitsError | None = None
    divergent: DivergentRuns | None = None
    alike: tuple[Run, ...] = ()
    rounds: list[Round] = field(default_factory=list)
    lines: dict[str, list[GuiltyLine]] = field(default_factory=dict)
    product_comparison: ProductComparison = field(default_factory=ProductComparison)
    leftover_result: LeftBehind | None = None
    full_pin: FullPin | None = None
    untested: list[str] = field(default_factory=list)
    stopped: bool = False
    signal: int | None = None

    @property
    def causes(self) -> list[Cause]:
        """The causes, each of which needs one fix; first those that vary between runs by themselves."""
        causes = [] if self.leftover_result is None else self.leftover_result.causes
        causes += [] if self.full_pin is None else [self.full_pin.cause]
        causes += [self._cause(suspect, line) for suspect in self.accused for line in self._lines_of(suspect)]
        return sorted(causes, key=lambda cause: not cause.varies_between_runs)

    @property
    def is_of_a_log(self) -> bool:
        """Whether the first runs differ in nothing but logs."""
        return self.product_comparison.is_log and self.product_comparison.at is self.divergent

    @property
    def last_trial(self) -> RemedyTrial | None:
        """The last remedy of the last round; None where none was tried."""
        return self.rounds[-1].trials[-1] if self.rounds and self.rounds[-1].trials else None

    @property
    def accused(self) -> list[Suspect]:
        """The suspects that still stand: for others, a later round has shown that nothing repeats where they differ.

        Where runs treated alike diverge at all, one that differed before any lot was drawn has shown nothing yet.
        """
        standing = [one for one in self.rounds[-1].accused if one.is_standing] if self.rounds else []
        if not standing or self.rounds[-1].inquiry.unsteady is None:
            return standing
        return [one for one in standing if self.rounds[-1].evidence(one).chance < 1]

    def _lines_of(self, suspect: Suspect) -> list[GuiltyLine]:
        lines = _read_lines(suspect)
        return lines or self.lines.get(suspect.name) or unsearched_line(suspect.baseline.entries(suspect.name))

    def _cause(self, suspect: Suspect, line: GuiltyLine) -> Cause:
        factor, facts, entry = find(suspect.name), suspect.baseline.base.facts, line.entry
        late = facts.late_seeds.get(suspect.name)
        what = SEEDED_LATE if late and factor.fixed_once else factor.explanation
        return Cause(
            suspect.name,
            entry.site if entry else None,
            factor.varies_between_runs,
            what.format(what=entry.what if entry else LIBRARY),
            self.rounds[-1].evidence(suspect),
            called=entry.what if entry else _answered(suspect),
            script=entry.script if entry else "",
            source=entry.source if entry else "",
            likely=bool(_read_lines(suspect)),
            others=tuple(other.site for other in line.company),
            fixed_together=factor.fixed_once,
            shown_by=facts.shown.get((suspect.name, entry.site.key), ()) if entry else (),
            seeded_late=late,
            divergent=suspect.divergent,
        )

    @property
    def remedy(self) -> Remedy | None:
        """The last remedy that was tried and pins all causes found so far."""
        if self.full_pin is not None:
            runs, compare = self.full_pin.remedy, self.rounds[-1].inquiry.compare
            return self.full_pin.tried(earliest(runs, compare) if runs else None)
        names = {one.name for one in self.accused}
        trials = [(round_, one) for round_ in self.rounds for one in round_.trials if names and names <= {*one.pins}]
        if not trials:
            return None
        round_, trial = trials[-1]
        evidence = [self.rounds[-1].evidence(one) for one in self.accused]
        whole = [run.id for run in trial.whole]
        is_fix = bool(trial.holds) and trial.later is None and len(whole) > 1
        return Remedy(
            trial.pins,
            is_fix and all(one.is_enough for one in evidence),
            diverged=None if trial.later is None else (trial.later.a, trial.later.b),
            runs=tuple(run.id for run in trial.runs if round_.baseline.differ(trial.runs[0], run) is None),
            whole=tuple(whole),
            varied=next((run.id for run in trial.varied if run.id in whole), None),
            chance=max(one.chance for one in evidence),
            failure=trial.failure,
        )

    @property
    def unknown(self) -> Unknown | None:
        """Runs that diverge with everything pinned, or with the remedy and nothing else to suspect; None if none do."""
        if not self.rounds or (self.full_pin is not None and self.full_pin.cause.confirmed):
            return None
        last, witnessed = self.rounds[-1], self._witnessed
        unsteady = last.inquiry.unsteady
        if unsteady is not None and not last.accounts_for(unsteady):
            is_held = {unsteady.a, unsteady.b} <= {run.id for run in last.baseline.runs}
            return Unknown(unsteady, is_held, *(last.baseline.results() if is_held else (2, 2)), witnessed=witnessed)
        if self.stopped or last.failure:
            return None
        if self.last_trial is not None:
            later = self.last_trial.later
            return None if later is None else Unknown(later, False, witnessed=witnessed)
        acquitted, untried = tuple(in_order(last.lineup.acquitted)), tuple(self.waiting)
        return Unknown(last.at, False, witnessed=witnessed, acquitted=acquitted, untried=untried)

    @property
    def _witnessed(self) -> tuple[tuple[str, Entry], ...]:
        """Every factor that entered the first run with everything pinned, with its first line, except accused ones."""
        baseline = self.rounds[-1].baseline
        if not baseline.runs:  # the runs were used up before
            return ()
        facts, accused = baseline.base.facts, {suspect.name for suspect in self.accused}
        read = {name: lines for name, lines in facts.read_lines.items() if find(name).held_in_part}
        entries = {**facts.entries, **read}
        return tuple((name, entries[name][0]) for name in in_order(entries) if entries[name] and name not in accused)

    @property
    def waiting(self) -> list[str]:
        """The factors that were to be released, and were not."""
        return in_order(self.rounds[-1].lineup.waiting) if self.rounds else []


def search(inquiry: Inquiry, found: SearchState) -> Asking[None]:
    """Make the whole search, as requests to `drive`; its findings are in `found`, also when the runs are used up."""
    try:
        first = yield from ask_first_question(inquiry)
        if isinstance(first, SamebitsError):
            found.error = first
        elif first is None:
            yield from _same(inquiry, found)
        else:
            found.divergent = first
            found.alike = yield from trained_alike(inquiry, first)
            found.product_comparison = yield from products_compared(inquiry, found.alike)
            found.leftover_result = yield from first_run_effect(inquiry, inquiry.first[0])
            if found.leftover_result is None:
                yield from _explain(inquiry, first, found)
    except BudgetSpentError as spent:
        found.stopped, found.signal, found.error = spent.trouble is None, spent.signal, spent.trouble


def _same(inquiry: Inquiry, found: SearchState) -> Asking[None]:
    """Compare what runs have made where all that was recorded agrees, and test what one leaves for the next one."""
    found.product_comparison = yield from products_compared(inquiry, inquiry.first)
    found.divergent = found.product_comparison.at
    if found.is_of_a_log:
        found.alike = tuple(run for run in inquiry.first if run.stopped_after == inquiry.request.last_step)
    if found.divergent is None or found.is_of_a_log:
        left = found.leftover_result = yield from left_behind(inquiry, inquiry.first)
        if left is not None and left.divergent is not None:
            found.divergent = left.divergent
            return
        if left is not None and left.unsteady is not None:
            found.divergent, found.leftover_result = left.unsteady, None
    if found.is_of_a_log:
        inquiry.compared_leaves = Leaves(found.product_comparison.logs)
    if found.divergent is not None:
        yield from _explain(inquiry, found.divergent, found)
    if found.is_of_a_log and not any(cause.confirmed for cause in found.causes):
        found.rounds.clear()  # what a log says depends on nothing that can be held still


def _explain(inquiry: Inquiry, divergent: DivergentRuns, found: SearchState) -> Asking[None]:
    """Find causes and remedies in turn, until a remedy holds to the end or no suspect is left."""
    at, round_ = divergent, None
    while True:
        # Runs treated alike accuse the factors that were free in them; a varied run first accuses the varied ones. What
        # only decides when things happen is held: it changes no verdict on a log.
        idle = WHEN if found.is_of_a_log else ()
        suspects = [name for name in dict.fromkeys([*at.varied, *moving_factors()]) if name not in idle]
        round_ = Round(inquiry, at, suspects, round_)
        found.rounds.append(round_)
        yield from round_.begin()
        if round_.failure:
            found.untested.append(round_.failure)
            return
        trial = yield from round_.explain()
        for suspect in round_.accused:
            if suspect.proven and suspect.name not in found.lines:
                found.lines[suspect.name] = yield from guilty_lines(suspect)
        if round_.baseline.is_hopeless:
            found.full_pin = yield from try_full_pin(round_)
            return
        if trial is None or not (yield from round_.try_whole_runs()):
            return
        if trial.later is None and not found.product_comparison.follows and found.product_comparison.at is None:
            found.product_comparison = yield from products_compared(inquiry, trial.whole, trial.pins)
            trial.later = None if found.product_comparison.is_log else found.product_comparison.at
        if trial.later is None:
            yield from round_.repeat_remedy()
            alike = [run for run in trial.runs if run not in trial.whole]
            found.leftover_result = yield from left_behind(inquiry, [*trial.whole, *alike])
            return
        at = trial.later


def _answered(suspect: Suspect) -> str:
    """Return the operation that a formula of ours computed, where that is the pin of this factor; else empty."""
    op = suspect.baseline.base.facts.replaced
    return f"{op}, {REPLACED}" if op and REPLACED in find(suspect.name).fixes else ""


def _read_lines(suspect: Suspect) -> list[GuiltyLine]:
    """Return the lines found by reading the code, for factors whose lines only reading finds."""
    lines = suspect.baseline.base.facts.read_lines.get(suspect.name, ())
    return [GuiltyLine(lines[0], tuple(lines[1:]))] if lines and find(suspect.name).found_statically else []
