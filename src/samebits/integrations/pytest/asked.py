"""What is asked for by options, markers and fixtures; and what is known of a test and its seed meanwhile."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import pytest

if TYPE_CHECKING:
    from samebits.factors.pinning import Treatment
    from samebits.testing.expected import ExpectedBits, NamedByTest
    from samebits.testing.seeding import Entering

MARK = "samebits"


class Options(NamedTuple):
    """What the options of a run say; `is_for_all` where every test is seeded.

    Attributes:
        writes: what is taken into the lockfile as it is now: `nothing`, `new` names only, or `all`.
        changing: the option that lets the lockfile be changed; empty where it may not be.
        folder, variant: where a process that samebits itself started keeps its run, and the number of that.
    """

    seed: int
    is_for_all: bool
    lockfile: Path
    writes: str
    changing: str
    folder: Path | None
    variant: int

    @classmethod
    def given(cls, config: pytest.Config) -> Options:
        """The options as they were given."""
        get = config.getoption
        seed, lockfile, folder = (get(f"samebits_{name}") for name in ("seed", "lockfile", "call"))
        path = config.rootpath / "samebits.lock" if lockfile is None else Path(config.invocation_params.dir, lockfile)
        writes = {"--samebits-update": "all", "--samebits-update-new-only": "new"}
        chosen = next(filter(get, (*writes, "--samebits-remove-unused")), "")
        changing, home = (chosen, None) if folder is None else ("", Path(folder))
        taken, variant = writes.get(chosen, "nothing"), get("samebits_variant")
        return cls(seed or 0, seed is not None, path, taken, changing, home, variant)


OPTIONS: pytest.StashKey[Options] = pytest.StashKey()


def options_of(config: pytest.Config) -> Options:
    """The options of this run."""
    return config.stash[OPTIONS]


def id_of(item: pytest.Item) -> str:
    """The id of a test, without what xdist adds to it to keep groups together."""
    group = item.get_closest_marker("xdist_group")
    name = None if group is None else (group.args[0] if group.args else group.kwargs.get("name"))
    return item.nodeid.removesuffix(f"@{name}") if name else item.nodeid


def asks(item: pytest.Item) -> bool:
    """Whether a test has anything to do with samebits."""
    marked = _mark_of(item) is not None or MARK in getattr(item, "fixturenames", ())
    return marked or options_of(item.config).is_for_all


def rerun_word(item: pytest.Item) -> str:
    """Its id as pytest shows it where it fails: from the folder in which pytest was started."""
    file, colons, within = id_of(item).partition("::")
    given = os.path.relpath(item.config.rootpath / file, item.config.invocation_params.dir)
    return shlex.quote(f"{Path(given).as_posix()}{colons}{within}")


class Repetition(NamedTuple):
    """What the marker of a test asks for."""

    runs: int = 1
    vary: tuple[str, ...] = ()
    is_isolated: bool = False


def requested(item: pytest.Item) -> Repetition:
    """What a test asks for; a marker that makes no sense fails it. A process of its own makes one run."""
    mark = _mark_of(item)
    found = Repetition() if mark is None else _checked(item, *mark.args, **mark.kwargs)
    return found if options_of(item.config).folder is None else Repetition(vary=found.vary)


def _mark_of(item: pytest.Item) -> pytest.Mark | None:
    """The nearest marker; a whole module's is meant for those of its tests that can take it."""
    if not _is_unittest(item):
        return item.get_closest_marker(MARK)
    own = [node for node in item.listchain() if not isinstance(node, pytest.Module)]
    return next((mark for node in reversed(own) for mark in reversed(node.own_markers) if mark.name == MARK), None)


def _is_unittest(item: pytest.Item) -> bool:
    return hasattr(item, "_testcase") or type(item).__name__ == "TestCaseFunction"


def _checked(
    item: pytest.Item, *args: object, runs: object = 2, vary: Any = (), isolated: object = False, **more: object
) -> Repetition:
    from samebits.base.errors import SamebitsError
    from samebits.testing.seeding import check_varied

    if args or more:
        fail(f"the marker samebits takes runs, vary and isolated, got {', '.join([*map(repr, args), *more])}")
    if not isinstance(runs, int) or runs < 2:
        fail(f"runs must be at least 2, got {runs!r}")
    if not isinstance(item, pytest.Function) or _is_unittest(item):
        fail(
            "the marker samebits is for test functions, not for tests of unittest: there, samebits.assert_repeats() "
            "calls any function twice"
        )
    try:
        return Repetition(runs, check_varied(vary, bool(isolated)), bool(isolated))
    except SamebitsError as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    """Fail the test with this text alone: neither our own lines nor what was raised on the way belong to it."""
    raise pytest.fail.Exception(message, pytrace=False) from None


def is_compared(item: pytest.Item) -> bool:
    """Whether it has several runs, or is one of them."""
    return requested(item).runs > 1 or options_of(item.config).folder is not None


# ---- what is known meanwhile -----------------------------------------------------------------------------------------


@dataclass
class KnownTest:
    """What is known of one test that asked for samebits.

    Attributes:
        treatments: in force now, the last one first to be undone.
        is_set_up: the seed of its fixtures is in force.
        is_called: its function was called, or its runs were made.
        named, ended: what it named in a process of its own, and what pytest made of it there.
    """

    treatments: list[Treatment] = field(default_factory=list)
    entering: Entering | None = None
    fixture: ExpectedBits | None = None
    is_set_up: bool = False
    is_called: bool = False
    named: NamedByTest | None = None
    ended: pytest.TestReport | None = None

    def undo(self) -> None:
        """Leave the generators as they would be without us."""
        while self.treatments:
            self.treatments.pop().undo()
        self.entering = None
        self.is_set_up = False

    def result(self) -> NamedByTest | None:
        """What the test named."""
        return self.named if self.fixture is None else self.fixture.named


TEST: pytest.StashKey[KnownTest] = pytest.StashKey()
SHARED: pytest.StashKey[set[int]] = pytest.StashKey()


def known_of(item: pytest.Item) -> KnownTest:
    """The one record of a test."""
    return item.stash.setdefault(TEST, KnownTest())


def send_named(item: pytest.Item, report: Any) -> None:
    """Have a report say what the test named, in whatever process it is read."""
    from samebits.base.records import to_data

    report.samebits = {"test": id_of(item), "named": to_data(known_of(item).result())}


def named_in(report: object) -> NamedByTest | None:
    """What a test named, as its report says."""
    from samebits.base.records import from_data
    from samebits.testing.expected import NamedByTest

    sent = getattr(report, "samebits", None)
    return None if sent is None or sent["named"] is None else from_data(NamedByTest, sent["named"])


def treat(item: pytest.Item, words: tuple[str, ...], variant: int) -> None:
    """Put the streams of a test in force, and change what is to be varied."""
    from samebits.testing import seeding

    varied, asked = requested(item).vary, options_of(item.config)
    if words or asked.folder is not None:
        # The others are in force since the fixtures were made, or the process began: a listing turned round twice is
        # as it was.
        varied = tuple(filter(seeding.is_generator, varied))
    settings = seeding.varied(varied, variant or asked.variant)
    treatment = seeding.seeded(asked.seed, (id_of(item), *words), settings)
    known = known_of(item)
    known.treatments.append(treatment)
    # What no seed holds is looked for where runs are compared; in fixtures of the test's own, too.
    if known.entering is None and is_compared(item):
        known.entering = seeding.Entering(is_alone=asked.folder is not None)
        known.treatments.append(known.entering)
    for line in seeding.untouched(treatment):
        from samebits.base.errors import UnseenWarning

        item.warn(UnseenWarning(line))
