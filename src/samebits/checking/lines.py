"""The search for guilty lines: a factor that is known to be guilty is changed at some of its lines only.

A generator that a seed fixes needs one fix, however many lines draw from it: only the first line that matters counts,
because a seed before it fixes all that follow. This line is found by halving the lines in the order of time. Where
each line needs a fix of its own (a listing, a clock), an innocent half costs one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samebits.checking import plan as plans
from samebits.checking.facts import Entry
from samebits.checking.inquiry import Asking
from samebits.checking.lineup import LEFT_ALONE_RUNS
from samebits.checking.suspects import Suspect
from samebits.factors.catalog import find

# The most runs for telling the lines of one factor apart; lines not told apart by then are named together.
MOST_RUNS = 12


@dataclass(frozen=True)
class GuiltyLine:
    """A line that needs a fix, and the lines that the same change covers.

    Attributes:
        entry: the line; None where the factor entered in libraries only.
        company: lines that the same change fixes, or that could not be distinguished from it.
    """

    entry: Entry | None
    company: tuple[Entry, ...] = ()


def unsearched_line(entries: Sequence[Entry]) -> list[GuiltyLine]:
    """Return what is known without any further run: the first line, and all others as its company."""
    return [GuiltyLine(entries[0], tuple(entries[1:]))] if entries else [GuiltyLine(None)]


def guilty_lines(suspect: Suspect) -> Asking[list[GuiltyLine]]:
    """Return the lines to fix, the first one first."""
    entries, search = suspect.baseline.entries(suspect.name), _LineSearch(suspect)
    if not entries or (len(entries) == 1 and not search.is_in_libraries):
        return unsearched_line(entries)
    if find(suspect.name).fixed_once:
        return (yield from search.first_of_each_script(entries))
    return (yield from search.among(entries))


class _LineSearch:
    def __init__(self, suspect: Suspect) -> None:
        self.suspect, self.name, self.baseline = suspect, suspect.name, suspect.baseline
        self.variant = suspect.showing_variant
        self.left = min(MOST_RUNS, self.baseline.inquiry.left)
        self.times = LEFT_ALONE_RUNS if suspect.is_left_alone or suspect.scatters else 1  # a race may not show
        self.is_in_libraries = self.name in self.baseline.base.facts.in_libraries

    def first_of_each_script(self, entries: Sequence[Entry]) -> Asking[list[GuiltyLine]]:
        """Return the first guilty line of each script: a seed in one fixes nothing in another script that it starts."""
        scripts = list(dict.fromkeys(entry.script for entry in entries))
        guilty: list[GuiltyLine] = []
        for script in scripts:
            of_script = [entry for entry in entries if entry.script == script]
            if len(scripts) == 1 or (yield from self._diverge(of_script)):
                guilty.append((yield from self._first_of(of_script)))
        return guilty or [GuiltyLine(None, tuple(entries))]

    def _first_of(self, entries: Sequence[Entry]) -> Asking[GuiltyLine]:
        """Return the first line that matters: changing all lines up to it makes runs diverge, without it they agree."""
        # Most often the first line of all matters.
        if len(entries) > 1 and (yield from self._diverge(entries[:1])):
            return GuiltyLine(entries[0], tuple(entries[1:]))
        if not (yield from self._matter(entries)):
            return GuiltyLine(None, tuple(entries))
        low, high = min(1, len(entries) - 1), len(entries)
        while high - low > 1:
            middle = (low + high) // 2
            if (yield from self._diverge(entries[:middle])):
                high = middle
            else:
                low = middle
        return GuiltyLine(entries[high - 1], tuple(entries[high:]))

    def among(self, entries: Sequence[Entry], *, is_guilty: bool = False) -> Asking[list[GuiltyLine]]:
        """Return which of these lines are guilty alone; lines of one function are separated last.

        `is_guilty`: together they are known to be guilty.
        """
        functions: dict[tuple[str, str], list[Entry]] = {}
        for entry in entries:
            functions.setdefault((entry.site.path, entry.site.function), []).append(entry)
        parts = list(functions.values()) if len(functions) > 1 else [[entry] for entry in entries]
        middle = len(parts) // 2
        halves = [[entry for part in half for entry in part] for half in (parts[:middle], parts[middle:])]
        is_split = len(entries) > 1 and self.left >= self.times * (len(halves) + (self.is_in_libraries > is_guilty))
        diverge = (yield from self._diverge_each(halves)) if is_split else []
        guilty = [half for half, diverges in zip(halves, diverge, strict=False) if diverges]
        if guilty:
            lines: list[GuiltyLine] = []
            for half in guilty:
                lines += yield from self.among(half, is_guilty=True)
            return lines
        if is_guilty or (yield from self._matter(entries)):
            return unsearched_line(entries)  # they matter only together
        return [GuiltyLine(None, tuple(entries))]

    def _matter(self, entries: Sequence[Entry]) -> Asking[bool]:
        """Whether the user's lines make runs diverge, and not only what libraries do by themselves.

        A line may change nothing alone (a day that comes later where all lines are changed, and earlier alone). Where
        all that is left diverges without these lines, it is the libraries.
        """
        sites = [entry.site.key for entry in entries]
        if not self.is_in_libraries or self.suspect.is_shown_by(sites) or (yield from self._diverge(entries)):
            return True
        rest = plans.sites_held_run(self.suspect.released, self.name, sites)
        runs = yield from self.baseline.inquiry.runs_of([rest] * self.times)
        return not any(self.suspect.is_ours(run) or self.suspect.shows(run) for run in runs)

    def _diverge(self, entries: Sequence[Entry]) -> Asking[bool]:
        (diverges,) = yield from self._diverge_each([entries])
        return diverges

    def _diverge_each(self, parts: Sequence[Sequence[Entry]]) -> Asking[list[bool]]:
        """Whether runs diverge with the factor changed at these lines only, for each part of the lines."""
        self.left -= len(parts) * self.times
        places = [[entry.site.key for entry in part] for part in parts for _ in range(self.times)]
        plans_of = [plans.sites_released_run(self.baseline.spare, self.name, sites, self.variant) for sites in places]
        shown = [self.suspect.shows(run) for run in (yield from self.baseline.inquiry.runs_of(plans_of))]
        return [any(shown[at : at + self.times]) for at in range(0, len(shown), self.times)]
