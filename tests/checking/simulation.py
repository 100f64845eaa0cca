"""Scripts that exist as numbers only: what runs of them would record, for testing decisions without any process."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast

from samebits.base.errors import SamebitsError
from samebits.base.sites import Site
from samebits.checking.facts import Entry, Facts
from samebits.checking.inquiry import Inquiry, drive
from samebits.checking.made import MadeByRuns
from samebits.checking.plan import CheckRequest
from samebits.checking.pool import BudgetSpentError, RunPool
from samebits.checking.search import SearchState, search
from samebits.checking.verdict import Run
from samebits.comparison.locate import Divergence
from samebits.comparison.products import Products
from samebits.factors.catalog import find
from samebits.factors.context import Setting
from samebits.launch.command import Command
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Carried, Outside, Reached, Seeded
from samebits.runfolder.spec import RunSpec

STREAM = "loss"
SCRIPT, FOLDER = "/train.py", "/left"


@dataclass(frozen=True)
class Effect:
    """A factor's line that changes what is recorded from one step on.

    Attributes:
        factor: its name.
        line: where it enters; 0 where nobody sees it enter.
        step: from which on it matters; None where it is harmless.
        only_with: it matters only while this other factor is not held.
        shows: the share of runs left alone in which it changes something (a race).
        kinds: how many results it has where it is left alone, each as often (a choice of kernels); 0 where all differ.
        makes: nothing but a leaf of what the run makes; `seeds` if a generator is seeded with it.
        values: how many others it has: a choice between two has one.
        hides: variants under which it is as it is held.
        frays: changed in the same way it has another value in every run, as threads have that no order holds.
        alone: it shows where its line is changed alone; else only where all lines are, as a day that comes later then.
        call: what is called there.
        rare: the chance of each step to be the first that shows it, another one with every value; 0 where all do.
    """

    factor: str
    line: int
    step: int | None
    only_with: str = ""
    shows: float = 1.0
    kinds: int = 0
    makes: Literal["", "leaf", "seeds"] = ""
    values: int = 100
    hides: tuple[int, ...] = ()
    frays: bool = False
    alone: bool = True
    rare: float = 0.0
    call: str = "a call"

    def is_shown(self, value: object, step: int) -> bool:
        """Whether a value has shown by this step."""
        if self.step is None or self.step > step:
            return False
        luck = random.Random(f"{self.line} {value}")
        return not self.rare or any(luck.random() < self.rare for _ in range(step - self.step + 1))


@dataclass(frozen=True)
class Script:
    """What is simulated.

    Attributes:
        steps: it takes.
        effects: what enters, in the order of time.
        coins: (step, bias): from that step on a run has one of two values.
        drifts: (step, first, last): a coin whose bias goes from one to the other within forty runs.
        turns: (step, period): from that step on runs have as many values in turns.
        noise: (step, share): from that step on so many runs have a value of their own.
        troubled: the run whose recording fails; 0 where none does.
        orders_by_address: there is none in runs that begin as `samebits run` begins them.
        breaks: treatments (factor, mode) under which it fails.
        disagrees: the share of runs with a factor changed at some of its lines only that fail.
        look: how many steps fit into a first look.
        cached: the line that reads a file outside the folder, which the first run has to write; 0 where there is none.
        is_limited: a quick clock reaches a limit of time before its last step.
        met: kinds of what it uses that no copy holds still.
        hangs: the share of runs with threads in turns that do not end by themselves.
        cut: runs that are ended after the look, and that of which they differed is made again.
        faces: how many values a leaf of what the run makes may have that is drawn anew; 0 where none is.
        outside: the first run leaves a file outside its copy, and a leaf says whether it was there.
        lottery: untreated runs fail now and then, with this chance.
        used: what it used of what some factors need.
    """

    steps: int = 6
    effects: tuple[Effect, ...] = ()
    coins: tuple[tuple[int, float], ...] = ()
    drifts: tuple[tuple[int, float, float], ...] = ()
    turns: tuple[tuple[int, int], ...] = ()
    noise: tuple[tuple[int, float], ...] = ()
    breaks: frozenset[tuple[str, str]] = frozenset()
    lottery: float = 0.0
    faces: int = 0
    outside: bool = False
    hangs: float = 0.0
    look: int = 1000
    cut: tuple[int, ...] = ()
    cached: int = 0
    is_limited: bool = False
    met: tuple[str, ...] = ()
    troubled: int = 0
    orders_by_address: bool = False
    used: frozenset[str] = frozenset()
    disagrees: float = 0.0


@dataclass
class Simulation:
    """Answers plans with runs of a script, and stands for the pool; what differs is trained, where it `trains`."""

    script: Script
    luck: random.Random
    most_runs: Callable[[], int]
    jobs: int = 1
    trains: bool = True
    runs: list[Run] = field(default_factory=list)
    traces: dict[int, list[object]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        space: Any = self.workspace
        self.made = MadeByRuns(space, ())

    def run_all(self, plans: Sequence[RunSpec]) -> list[Run]:
        if len(plans) > self.left:
            raise BudgetSpentError
        first = len(self.runs) + 1
        paths = [f"/runs/{number}" for number in range(first, first + len(plans))]
        for number, plan in enumerate(plans):
            self._run(plan if plan.along is None else replace(plan, along=tuple(paths[:number])))
        if first <= self.script.troubled <= len(self.runs):
            raise BudgetSpentError(trouble=SamebitsError("samebits' mistake"))
        return self._ended_together(self.runs[first - 1 :])

    @property
    def left(self) -> int:
        return self.most_runs() - len(self.runs)

    @property
    def workspace(self) -> SimpleNamespace:
        own = [run for run in self.runs if run.succeeded and run.stopped_after is None and not run.plan.settings]
        names = frozenset(os.path.relpath(note.path, FOLDER) for note in self._carried()) if own else None
        return SimpleNamespace(left_by=self.left_by(), names=names, folder=FOLDER, prepared=frozenset())

    @property
    def room(self) -> int:
        return self.luck.randint(1, self.jobs)

    def has_trained(self, run: Run) -> bool:
        return self.script.steps > 0 and run.steps > 0

    def compare_trained(self, a: Run, b: Run) -> Divergence | None:
        return self.compare(a, b) if self.trains else None

    def compare(self, a: Run, b: Run) -> Divergence | None:
        left, right = self.traces[a.id], self.traces[b.id]
        for step, (x, y) in enumerate(zip(left, right, strict=False)):
            if x != y:
                return Divergence(step, STREAM)
        if a.succeeded != b.succeeded:
            failed, other = (b, a) if a.succeeded else (a, b)
            last = other.stopped_after
            return Divergence(failed.steps, "outcome") if last is None or failed.steps <= last else None
        return None

    def _ended_together(self, runs: list[Run]) -> list[Run]:
        """Those that follow one another end where the first two of them diverge."""
        along = [run for run in runs if run.plan.along is not None]
        places = [self.compare(a, b) for a, b in combinations(along, 2)]
        cut = [run for run in along if run.id in self.script.cut]
        self._end(cut, self.script.look)
        steps = min((place.step + 1 for place in places if place is not None and place.stream == STREAM), default=None)
        if steps is not None:
            self._end([run for run in along if run.steps > steps], steps)
        return [self.runs[run.id - 1] for run in runs]

    def _end(self, runs: Sequence[Run], steps: int) -> None:
        for run in runs:
            del self.traces[run.id][steps:]
            self.runs[run.id - 1] = replace(run, steps=steps, exit_code=0, stopped_after=steps - 1)

    def _run(self, plan: RunSpec) -> Run:
        number = len(self.runs) + 1
        luck = self.luck
        broken = any((name, own.mode) in self.script.breaks for name, own in plan.settings.items())
        broken = broken or (plan.witness and ("watching", "witnessed") in self.script.breaks)
        if any(own.released for own in plan.settings.values()):
            broken = broken or luck.random() < self.script.disagrees
        is_unlucky = luck.random() < self.script.lottery
        steps = self.script.steps if plan.stop_after is None else min(self.script.steps, plan.stop_after + 1)
        if plan.look_seconds is not None:
            steps = min(steps, self.script.look)
        # What ends before it fails has not failed.
        fails = broken or (is_unlucky and (steps >= 2 or self.script.steps < 2))
        steps = min(steps, 2) if fails else steps
        values = [self._value(effect, plan) for effect in self.script.effects]
        coins = [(step, luck.random() < bias) for step, bias in self.script.coins]
        for step, first, last in self.script.drifts:
            coins.append((step, luck.random() < first + (last - first) * min(number / 40, 1.0)))
        coins += [(step, number % period == 0) for step, period in self.script.turns]
        noise = [(step, luck.random() if luck.random() < share else None) for step, share in self.script.noise]
        noise = [] if self.script.orders_by_address and plan.as_run else noise
        clock = plan.settings.get("clock", Setting())
        is_ended = self.script.is_limited and clock.mode == "varied" and clock.steady and clock.value is None
        self.traces[number] = [
            (
                step,
                tuple(v for e, v in zip(self.script.effects, values, strict=True) if e.is_shown(v, step)),
                tuple(side for at, side in coins if at <= step),
                tuple(side for at, side in noise if at <= step),
                self.script.cached > 0 and number == 1,
                is_ended and step == steps - 1,
            )
            for step in range(steps)
        ]
        trace = self.traces[number]
        for folder in (*([] if plan.follow is None else [plan.follow]), *(plan.along or ())):
            known = self.traces[int(Path(folder).name)]
            other = next((step for step, (x, y) in enumerate(zip(trace, known, strict=False)) if x != y), steps)
            del trace[other + 1 :]
            steps = len(trace)
        is_cut = not fails and steps < self.script.steps
        folder = RunFolder(Path(f"/runs/{number}"))
        facts = self._facts(plan, number)
        made = {f"leaf {e.line}": str(v) for e, v in zip(self.script.effects, values, strict=True) if e.makes}
        if self.script.faces:
            made["drawn"] = str(luck.randrange(self.script.faces))
        if self.script.outside:
            made["was there"] = str(number > 1)
            facts = replace(facts, reached=(Reached("file /home/cache"),))
        if plan.witness:
            seeds = [e for e in self.script.effects if e.makes == "seeds"]
            given = tuple(Seeded("seed", made[f"leaf {e.line}"], Site(SCRIPT, e.line)) for e in seeds)
            facts = replace(facts, seeds=given)
        in_turns = plan.settings.get("thread-order", Setting()).mode != "natural"
        limit = 60.0 if in_turns and luck.random() < self.script.hangs else None
        end, products = steps - 1 if is_cut else None, Products({"/made": made}) if made else Products()
        run = Run(folder, plan, int(fails), 1.0, end, limit, id=number, steps=steps, facts=facts, products=products)
        self.runs.append(run)
        return run

    def _value(self, effect: Effect, plan: RunSpec) -> object:
        own = plan.settings.get(effect.factor, Setting())
        if find(effect.factor).by_folder:
            is_brought = not plan.brought or f"{FOLDER}/{effect.line}" in plan.brought
            return "left" if plan.begins == "left" and is_brought else "fresh"
        if effect.only_with and plan.settings.get(effect.only_with, Setting()).mode == "pinned":
            return "masked"
        is_other = (SCRIPT, effect.line) in own.released
        is_released = is_other and own.mode == "pinned"
        if effect.factor == RACE:
            shows = (own.mode != "pinned" or is_released) and self.luck.random() < effect.shows
            return self.luck.random() if shows else "held"
        if own.mode == "varied" and is_other:
            return "held"
        if own.mode == "varied" or (is_released and effect.alone):
            fray = self.luck.random() if effect.frays else ""
            return "held" if own.variant in effect.hides else f"other {own.variant % effect.values}{fray}"
        if own.mode == "pinned":
            return "held"
        if not find(effect.factor).varies_between_runs:
            return "natural"
        if effect.kinds:
            return self.luck.randrange(effect.kinds)
        return self.luck.random() if self.luck.random() < effect.shows else "natural"

    def _facts(self, plan: RunSpec, number: int) -> Facts:
        entries: dict[str, tuple[Entry, ...]] = {}
        for effect in self.script.effects:
            factor = find(effect.factor)
            if (factor.has_sites and not factor.by_folder) or (factor.left_alone and effect.line):
                own = entries.setdefault(effect.factor, ())
                if effect.line:
                    entries[effect.factor] = (*own, Entry(effect.call, Site(SCRIPT, effect.line)))
        read_lines: dict[str, tuple[Entry, ...]] = {}
        for effect in self.script.effects:
            if find(effect.factor).found_statically and effect.line:
                found = Entry("sorts", Site(SCRIPT, effect.line))
                read_lines[effect.factor] = (*read_lines.get(effect.factor, ()), found)
        hidden = frozenset(one.factor for one in self.script.effects if not one.line and find(one.factor).has_sites)
        outside = tuple(Outside(kind, kind, Site(SCRIPT, 1)) for kind in self.script.met)
        facts = Facts(
            outside=outside, used=self.script.used, read_lines=read_lines, carried=self._carried(), in_libraries=hidden
        )
        return replace(facts, entries=entries, script=SCRIPT) if plan.witness else facts

    def _carried(self) -> tuple[Carried, ...]:
        """What a run reads before it writes it, its files named after the lines that read them."""
        own = [one.line for one in self.script.effects if find(one.factor).by_folder]
        paths = [f"{FOLDER}/{line}" for line in own]
        if self.script.cached:
            own, paths = [*own, self.script.cached], [*paths, "/home/cache"]
        return tuple(
            Carried("read", path, path, Site(SCRIPT, line), Site(SCRIPT, 99))
            for path, line in zip(paths, own, strict=True)
        )

    def left_by(self) -> int | None:
        """The last run whose folder was kept."""
        whole = [run.id for run in self.runs if run.plan.keeps and run.succeeded and run.stopped_after is None]
        return whole[-1] if whole else None


def simulated(
    script: Script, luck: random.Random, max_runs: int | None = None, trains: bool = True, **options: object
) -> tuple[SearchState, Simulation, Inquiry]:
    """What a check decides about a script; where it `trains` not what differs, that is what else happened."""
    request = CheckRequest(Command(("python", SCRIPT), (SCRIPT,)), max_runs=max_runs, **options)  # type: ignore[arg-type]
    found = SearchState()
    simulation = Simulation(script, luck, lambda: request.most_runs(len(found.accused)), request.jobs, trains)
    inquiry = Inquiry(request, cast("RunPool", simulation), random.Random(luck.random()))
    drive(search(inquiry, found), simulation.run_all)
    return found, simulation, inquiry


SEEN = (
    "python-rng",
    "numpy-rng",
    "torch-rng",
    "os-entropy",
    "clock",
    "file-order",
    "uninitialized-memory",
    "hash-seed",
)
LEFT = "files-left-behind"
UNSEEN = ("cpu-threads", "torch-algorithms")
# A race at a line: varied, it is left to chance all the same.
RACE = "stream-order"


def with_a_race(script: Script, luck: random.Random) -> Script:
    """The same on a device, with a line at which work is not waited for."""
    race = Effect(RACE, 99, luck.randrange(script.steps), shows=luck.choice((1.0, 1.0, 0.5, 0.2)))
    return replace(script, effects=(*script.effects, race), used=frozenset({"cuda", "accelerator"}))


def random_script(luck: random.Random) -> Script:
    """A script of any kind: harmless entries, guilty ones, coins, noise, treatments that break it, races."""
    steps = luck.randint(2, 8)
    effects = [Effect(luck.choice(SEEN), line, None) for line in luck.sample(range(1, 60), luck.randint(0, 6))]
    for line in luck.sample(range(60, 99), luck.choice((0, 0, 0, 1, 1, 1, 2, 3, 4))):
        factor = luck.choice((*SEEN, *UNSEEN, LEFT))
        mask = luck.choice(SEEN) if luck.random() < 0.1 else ""
        shows = luck.choice((1.0, 1.0, 0.5, 0.2)) if factor in UNSEEN else 1.0
        own = 0 if factor in UNSEEN else line
        effects.append(Effect(factor, own, luck.randrange(steps), "" if mask == factor else mask, shows))
    luck.shuffle(effects)
    coins = tuple(
        (luck.randrange(steps), luck.choice((0.5, 0.3, 0.1, 0.02, luck.random())))
        for _ in range(luck.choice((0, 0, 1, 1, 2)))
    )
    drifts = ((luck.randrange(steps), luck.random(), luck.random()),) if luck.random() < 0.15 else ()
    turns = ((luck.randrange(steps), luck.choice((2, 2, 2, 3, 4))),) if luck.random() < 0.15 else ()
    noise = ((luck.randrange(steps), luck.random()),) if luck.random() < 0.1 else ()
    breaks = frozenset(
        (luck.choice(SEEN + UNSEEN), luck.choice(("pinned", "varied"))) for _ in range(luck.choice((0, 0, 0, 1, 2)))
    )
    lottery = luck.choice((0.05, 0.3)) if luck.random() < 0.05 else 0.0
    return Script(
        steps, tuple(effects), coins, drifts, turns, noise, breaks, lottery, look=luck.choice((1000, 1, 2, 3, 5))
    )
