"""Which line it is: a factor whose guilt is known is changed at some of its lines only.

Generators that a seed cures are one thing to mend, however many lines draw from them: what counts is the first line
that matters, because a seed before it cures all that follow. Found by halving the lines in the order of time. Where
each line has to be mended by itself (a listing, a clock), an innocent half costs one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from samebits.checking import plan as plans
from samebits.checking.asking import Asking
from samebits.checking.facts import Entry
from samebits.checking.suspects import Suspect
from samebits.factors.catalog import find
from samebits.factors.context import SiteKey
from samebits.runfolder.spec import RunSpec

# Runs for telling the lines of one factor apart; what is left together then is named together.
MOST_RUNS = 12


@dataclass(frozen=True)
class GuiltyLine:
    """One thing to mend.

    Attributes:
        entry: the line; None where the factor entered in libraries only.
        company: lines that the same change fixes, or that could not be distinguished from it.
    """

    entry: Entry | None
    company: tuple[Entry, ...] = ()


def places_of(suspect: Suspect) -> list[GuiltyLine]:
    """What can be said without any further run: the first line, and all others as its company."""
    entries = suspect.held.entries(suspect.name)
    return [GuiltyLine(entries[0], tuple(entries[1:]))] if entries else [GuiltyLine(None)]


def guilty_places(suspect: Suspect) -> Asking[list[GuiltyLine]]:
    """The lines to mend, the first one first."""
    entries = suspect.held.entries(suspect.name)
    if not entries:
        return [GuiltyLine(None)]
    search = _LineSearch(suspect)
    if len(entries) == 1 and suspect.name not in suspect.held.base.facts.in_libraries:
        return [GuiltyLine(entries[0])]
    if find(suspect.name).fixed_once:
        return (yield from search.first_of_each_script(entries))
    return (yield from search.each_of(entries))


class _LineSearch:
    def __init__(self, suspect: Suspect) -> None:
        self.suspect, self.held = suspect, suspect.held
        self.left = min(MOST_RUNS, self.held.inquiry.left())

    def first_of_each_script(self, entries: Sequence[Entry]) -> Asking[list[GuiltyLine]]:
        """A seed in one script cures nothing in another one that it starts."""
        scripts = list(dict.fromkeys(entry.script for entry in entries))
        if len(scripts) == 1:
            return [(yield from self.first_of(entries))]
        found: list[GuiltyLine] = []
        for script in scripts:
            own = [entry for entry in entries if entry.script == script]
            if (yield from self._diverge(own)):
                found.append((yield from self.first_of(own)))
        return found or [GuiltyLine(None, tuple(entries))]

    def first_of(self, entries: Sequence[Entry]) -> Asking[GuiltyLine]:
        """The first line that matters: changing all lines up to it makes runs diverge, without it they agree."""
        low, high = 0, len(entries)
        if not (yield from self._matter(entries)):
            return GuiltyLine(None, tuple(entries))
        while high - low > 1:
            # Most often the first line of all matters.
            middle = (low + high) // 2 if low else 1
            if (yield from self._diverge(entries[:middle])):
                high = middle
            else:
                low = middle
        return GuiltyLine(entries[high - 1], tuple(entries[high:]))

    def each_of(self, entries: Sequence[Entry]) -> Asking[list[GuiltyLine]]:
        """Every line that makes runs diverge by itself; lines of one function are separated last."""
        if not (yield from self._matter(entries)):
            return [GuiltyLine(None, tuple(entries))]
        return (yield from self._among(list(entries), _by_function))

    def _among(
        self, entries: list[Entry], grouped: Callable[[list[Entry]], list[list[Entry]]]
    ) -> Asking[list[GuiltyLine]]:
        """These make runs diverge together: which do alone?"""
        halves = grouped(entries)
        if len(halves) < 2 and grouped is _by_function:
            return (yield from self._among(entries, _in_halves))
        if len(entries) == 1 or self.left < len(halves):
            return [GuiltyLine(entries[0], tuple(entries[1:]))]
        guilty: list[list[Entry]] = []
        for half in halves:
            if (yield from self._diverge(half)):
                guilty.append(half)
        if not guilty:  # only together
            return [GuiltyLine(entries[0], tuple(entries[1:]))]
        found: list[GuiltyLine] = []
        for half in guilty:
            found += yield from self._among(half, grouped)
        return found

    def _matter(self, entries: Sequence[Entry]) -> Asking[bool]:
        """Whether the user's lines make runs diverge, and not what libraries do by themselves."""
        if self.suspect.name not in self.held.base.facts.in_libraries:
            return True
        return (yield from self._diverge(entries))

    def _diverge(self, entries: Sequence[Entry]) -> Asking[bool]:
        self.left -= 1
        runs = yield from self.held.inquiry.runs_of([self._plan([entry.site.key for entry in entries])])
        return self.held.differ(self.held.base, runs[0]) is not None

    def _plan(self, keys: Sequence[SiteKey]) -> RunSpec:
        return plans.sites_released_run(self.held.spare, self.suspect.name, keys)


def _in_halves(entries: list[Entry]) -> list[list[Entry]]:
    middle = len(entries) // 2
    return [half for half in (entries[:middle], entries[middle:]) if half]


def _by_function(entries: list[Entry]) -> list[list[Entry]]:
    """Halves of the functions in which the lines stand; one group where there is one function."""
    functions: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        functions.setdefault((entry.site.path, entry.site.function), []).append(entry)
    groups = list(functions.values())
    middle = len(groups) // 2
    halves = ([entry for group in part for entry in group] for part in (groups[:middle], groups[middle:]))
    return [half for half in halves if half]
