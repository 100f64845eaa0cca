"""What is known of a test while it runs, and of the whole run; and the seed that is in force for a test."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from samebits.integrations.pytest.asked import id_of, is_compared, requested, seed_of

if TYPE_CHECKING:
    from samebits.factors.pinning import Treatment
    from samebits.testing.entering import Entering
    from samebits.testing.expected import ExpectedBits, NamedByTest
    from samebits.testing.isolation import TestEnding


@dataclass
class KnownTest:
    """What is known of one test that asked for samebits.

    Attributes:
        treatments: in force now, the last one first to be undone.
        entering: watches what no seed holds.
        fixture: its fixture, where it has one.
        is_set_up: the seed of its fixtures is in force.
        is_called: its function was called, or its runs were made.
        named: what it named in a process of its own.
        ended: what pytest made of it there.
    """

    treatments: list[Treatment | Entering] = field(default_factory=list)
    entering: Entering | None = None
    fixture: ExpectedBits | None = None
    is_set_up: bool = False
    is_called: bool = False
    named: NamedByTest | None = None
    ended: TestEnding | None = None

    def undo(self) -> None:
        """Leave the generators as they would be without us."""
        while self.treatments:
            self.treatments.pop().undo()
        self.entering = None
        self.is_set_up = False

    def result(self) -> NamedByTest | None:
        """What the test named."""
        return self.named if self.fixture is None else self.fixture.named


@dataclass
class KnownSession:
    """What is known of the whole run, in the process that reports it.

    Attributes:
        passed: what tests named that passed, or their ids alone.
        collected: ids of all tests, as far as they are known.
        is_whole: no test was left out, and no process that ran some is missing.
        lines: what is said at the end.
        unknown: why tests could not be compared here.
    """

    passed: dict[str, NamedByTest | None] = field(default_factory=dict)
    collected: set[str] = field(default_factory=set)
    is_whole: bool = True
    lines: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


TEST: pytest.StashKey[KnownTest] = pytest.StashKey()
SESSION: pytest.StashKey[KnownSession] = pytest.StashKey()
SHARED: pytest.StashKey[set[int]] = pytest.StashKey()


def known_of(item: pytest.Item) -> KnownTest:
    """The one record of a test."""
    return item.stash.setdefault(TEST, KnownTest())


def treat(item: pytest.Item, words: tuple[str, ...], variant: int) -> None:
    """Put the streams of a test in force, and change what is to be varied."""
    from samebits.testing import seeding

    varied = requested(item).vary
    if words:
        # The others are in force since the fixtures were made: a listing turned round twice is as it was.
        varied = tuple(filter(seeding.is_generator, varied))
    settings = {**_task_settings(item.config), **seeding.varied(varied, variant)}
    treatment = seeding.seeded(seed_of(item.config), (id_of(item), *words), settings)
    known_of(item).treatments.append(treatment)
    _watch(item)
    for line in seeding.untouched(treatment):
        from samebits.base.errors import UnseenWarning

        item.warn(UnseenWarning(line))


def _watch(item: pytest.Item) -> None:
    """Look for what no seed holds, where runs are compared; fixtures of the test's own are looked at, too."""
    known = known_of(item)
    if known.entering is None and is_compared(item):
        from samebits.testing.entering import Entering

        known.entering = Entering(is_alone=item.config.getoption("samebits_call") is not None)
        known.treatments.append(known.entering)


def _task_settings(config: pytest.Config) -> Any:
    folder = config.getoption("samebits_call")
    if folder is None:
        return {}
    from samebits.testing.isolation import read_task

    return read_task(Path(folder)).settings
