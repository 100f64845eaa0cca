"""The requests that options, markers and fixtures make, and the record of each test while it runs."""

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
    from samebits.testing.seeding import UnseededWitnesses

MARK = "samebits"


class Options(NamedTuple):
    """The options of a pytest run; with `is_for_all`, every test is seeded.

    Attributes:
        writes: which bits are written into the lockfile as they are now: `nothing`, `new` names only, or `all`.
        changing: the option that lets the lockfile be changed; empty if none does.
        folder, variant: of a process that samebits itself started: the folder of its run, and the run's number.
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
        """Read the options as they were given."""
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
    """Return the options of this pytest run."""
    return config.stash[OPTIONS]


def id_of(item: pytest.Item) -> str:
    """Return the id of a test, without the suffix by which xdist keeps groups together."""
    group = item.get_closest_marker("xdist_group")
    name = None if group is None else (group.args[0] if group.args else group.kwargs.get("name"))
    return item.nodeid.removesuffix(f"@{name}") if name else item.nodeid


def asks_for_samebits(item: pytest.Item) -> bool:
    """Whether a test asks for samebits, by its marker or the fixture, or every test is seeded."""
    marked = _mark_of(item) is not None or MARK in getattr(item, "fixturenames", ())
    return marked or options_of(item.config).is_for_all


def rerun_word(item: pytest.Item) -> str:
    """Return the argument of pytest that runs a test again from the folder in which pytest was started."""
    file, colons, within = id_of(item).partition("::")
    given = os.path.relpath(item.config.rootpath / file, item.config.invocation_params.dir)
    return shlex.quote(f"{Path(given).as_posix()}{colons}{within}")


class Repetition(NamedTuple):
    """The request of a test's marker: how many runs, factors to vary, and whether each run has its own process."""

    runs: int = 1
    vary: tuple[str, ...] = ()
    is_isolated: bool = False


def requested(item: pytest.Item) -> Repetition:
    """Return the request of a test; an invalid marker fails the test. A process of its own makes one run."""
    mark = _mark_of(item)
    request = Repetition() if mark is None else _checked(item, *mark.args, **mark.kwargs)
    return request if options_of(item.config).folder is None else Repetition(vary=request.vary)


def _mark_of(item: pytest.Item) -> pytest.Mark | None:
    """Return the nearest marker; a module's does not count for tests of unittest, which cannot take it."""
    if not _is_unittest(item):
        return item.get_closest_marker(MARK)
    nodes = [node for node in item.listchain() if not isinstance(node, pytest.Module)]
    return next((mark for node in reversed(nodes) for mark in reversed(node.own_markers) if mark.name == MARK), None)


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
    """Fail the test with this text alone, without lines of samebits and the error that led here."""
    raise pytest.fail.Exception(message, pytrace=False) from None


def is_compared(item: pytest.Item) -> bool:
    """Whether a test has several runs, or this process makes one of several."""
    return requested(item).runs > 1 or options_of(item.config).folder is not None


# ---- what is known meanwhile -----------------------------------------------------------------------------------------


@dataclass
class RequestedTest:
    """The record of one test that asked for samebits.

    Attributes:
        treatments: those in force now; the last one is undone first.
        is_set_up: whether the seed of its fixtures is in force.
        is_called: whether its function was called, or its runs were made.
        named, ended: what it named in a process of its own, and pytest's report of how it ended there.
    """

    treatments: list[Treatment] = field(default_factory=list)
    entering: UnseededWitnesses | None = None
    fixture: ExpectedBits | None = None
    is_set_up: bool = False
    is_called: bool = False
    named: NamedByTest | None = None
    ended: pytest.TestReport | None = None

    def undo(self) -> None:
        """Undo all treatments, and leave the generators as they would be without samebits."""
        while self.treatments:
            self.treatments.pop().undo()
        self.entering = None
        self.is_set_up = False

    def result(self) -> NamedByTest | None:
        """Return what the test named."""
        return self.named if self.fixture is None else self.fixture.named


TEST: pytest.StashKey[RequestedTest] = pytest.StashKey()
SHARED: pytest.StashKey[set[int]] = pytest.StashKey()


def record_of(item: pytest.Item) -> RequestedTest:
    """Return the record of a test, which the first call makes."""
    return item.stash.setdefault(TEST, RequestedTest())


def send_named(item: pytest.Item, report: Any) -> None:
    """Add what a test named to its report, in a form that other processes can read."""
    from samebits.base.records import to_data

    report.samebits = {"test": id_of(item), "named": to_data(record_of(item).result())}


def named_in(report: object) -> NamedByTest | None:
    """Return what a test named, from its report."""
    from samebits.base.records import from_data
    from samebits.testing.expected import NamedByTest

    sent = getattr(report, "samebits", None)
    return None if sent is None or sent["named"] is None else from_data(NamedByTest, sent["named"])


def treat(item: pytest.Item, words: tuple[str, ...], variant: int) -> None:
    """Start the generators at the streams of a test, and vary the factors that its marker names."""
    from samebits.testing import seeding

    varied, options = requested(item).vary, options_of(item.config)
    if words or options.folder is not None:
        # The other factors are varied since the fixtures were made, or the process began: varied twice, a reversed
        # listing would be in its first order again.
        varied = tuple(filter(seeding.is_generator, varied))
    settings = seeding.varied_settings(varied, variant or options.variant)
    treatment = seeding.seeded(options.seed, (id_of(item), *words), settings)
    record = record_of(item)
    record.treatments.append(treatment)
    # Where runs are compared, factors that no seed controls are witnessed, also in the test's own fixtures.
    if record.entering is None and is_compared(item):
        record.entering = seeding.UnseededWitnesses(is_alone=options.folder is not None)
        record.treatments.append(record.entering)
    for line in seeding.untouched(treatment):
        from samebits.base.errors import UnseenWarning

        item.warn(UnseenWarning(line))
