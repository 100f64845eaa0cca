"""The pytest plugin: tests that have to repeat, tensors that have to keep their bits, a seed for each test.

It is loaded in every pytest run where samebits is installed, so it imports nothing until a test asks for it.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from samebits.integrations.pytest.asked import (
    MARK,
    OPTIONS,
    SHARED,
    TEST,
    Options,
    asks_for_samebits,
    fail,
    id_of,
    is_compared,
    named_in,
    options_of,
    record_of,
    requested,
    rerun_word,
    send_named,
    treat,
)

if TYPE_CHECKING:
    from samebits.testing.expected import ExpectedBits, NamedByTest

_HERE = Path(__file__).parent
_HELP = (
    "samebits(runs=2, vary=[], isolated=False): run the test several times, each time from the same seed and with "
    "fresh fixtures, and fail where the runs diverge; vary names factors that are changed on purpose; isolated gives "
    "each run a process of its own."
)


def seed_torch(seed: int) -> None:
    """Seed torch if it is loaded already: pytest-randomly calls this wherever it seeds Python and NumPy."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        from samebits.base.seeds import derive

        # Derived, since other libraries are seeded from the same number.
        torch.manual_seed(derive(seed, "torch", bits=32))


# ---- options ---------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, each with the plugin's name in it."""
    group = parser.getgroup("samebits", "samebits: tests that repeat bit for bit")
    add = group.addoption
    add("--samebits-seed", type=int, metavar="N", help="Seed every test from N (default 0, and only tests that ask).")
    add("--samebits-lockfile", metavar="PATH", help="Where expected bits are (default samebits.lock in the rootdir).")
    add("--samebits-update", action="store_true", help="Write what passing tests name now into the lockfile.")
    add("--samebits-update-new-only", action="store_true", help="The same, only for what is not locked yet.")
    add("--samebits-remove-unused", action="store_true", help="Remove what is locked and no test asks for.")
    add("--samebits-write-in-ci", action="store_true", help="Write the lockfile although CI is set.")
    # For processes that samebits itself starts.
    add("--samebits-call", metavar="DIR", help=SUPPRESS)
    add("--samebits-variant", type=int, default=0, help=SUPPRESS)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse at once to write a lockfile in CI where that is not allowed."""
    config.addinivalue_line("markers", _HELP)
    config.stash[OPTIONS] = Options.given(config)
    options = options_of(config)
    if options.changing and not config.getoption("samebits_write_in_ci"):
        from samebits.base.ci import in_ci

        if in_ci(os.environ):
            raise pytest.UsageError(
                f"{options.changing} would write {options.lockfile}, and CI is set: add --samebits-write-in-ci if that "
                "is meant"
            )
    if options.folder is None:
        config.pluginmanager.register(Reporter(config), "samebits-reporter")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Return the line that names the seed, if one was given."""
    options = options_of(config)
    return f"samebits: --samebits-seed {options.seed}" if options.is_for_all else None


# ---- which tests asked -----------------------------------------------------------------------------------------------


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note the shared fixtures of tests that ask for samebits; a test whose runs are elsewhere needs none here."""
    shared: set[int] = set()
    for item in filter(asks_for_samebits, items):
        info = getattr(item, "_fixtureinfo", None)
        for definitions in getattr(info, "name2fixturedefs", {}).values():
            shared |= {id(one) for one in definitions if one.scope != "function"}
        mark = item.get_closest_marker(MARK)
        if mark is not None and mark.kwargs.get("isolated") and options_of(config).folder is None:
            item.fixturenames = []  # type: ignore[attr-defined]
    config.stash[SHARED] = shared


# ---- one test --------------------------------------------------------------------------------------------------------


@pytest.fixture(name=MARK)
def _fixture(request: pytest.FixtureRequest) -> ExpectedBits:
    """Expected bits: `samebits.assert_same(name, tensor_or_module)` holds them against the lockfile."""
    from samebits.testing.expected import ExpectedBits

    item, options = request.node, options_of(request.config)
    # Each run of the test gets an object of its own.
    fixture = ExpectedBits(id_of(item), options.lockfile, options.seed, options.writes, rerun_word(item))
    record_of(item).fixture = fixture
    return fixture


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Make fixtures from the seed of their test; those that tests share, from a seed of their own."""
    item = request._pyfuncitem
    if fixturedef.scope == "function":
        if asks_for_samebits(item) and not record_of(item).is_set_up:
            record_of(item).is_set_up = True
            treat(item, (), 0)
        return (yield)
    if id(fixturedef) not in item.config.stash.get(SHARED, set()):
        return (yield)
    from samebits.testing.seeding import seeded

    words = request.node.nodeid, "fixture", fixturedef.argname, getattr(request, "param_index", 0)
    treatment = seeded(options_of(item.config).seed, words)
    try:
        return (yield)
    finally:
        treatment.undo()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test with an invalid marker before anything of it runs."""
    requested(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that was not compared or lacks locked tensors; skip one that is locked for other environments."""
    if not asks_for_samebits(item):
        yield
        return
    record = record_of(item)
    record.is_called, record.ended = False, None
    yield
    if not record.is_called and is_compared(item):
        fail(
            f"{item.name} was called by another plugin, so it was neither repeated nor recorded: inside it, "
            "samebits.assert_repeats() calls any function twice"
        )
    if record.fixture is not None and (lacking := record.fixture.lacking):
        fail(lacking)
    named = record.result()
    if named is not None and named.unknown:
        pytest.skip(named.unknown)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Leave the generators as they would be without samebits."""
    try:
        yield
    finally:
        if item.stash.get(TEST, None) is not None:
            record_of(item).undo()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call a test in the way it asks for."""
    if not asks_for_samebits(pyfuncitem):
        return None
    from samebits.integrations.pytest.repeating import call_for_another_process, is_async, run_repeatedly

    folder = options_of(pyfuncitem.config).folder
    request = requested(pyfuncitem)
    if folder is None and request.runs == 1:
        treat(pyfuncitem, ("call",), 0)
        return None
    if not request.is_isolated and is_async(pyfuncitem.obj):
        # Another plugin may know how to call it; if none does, pytest says so.
        return None
    record_of(pyfuncitem).is_called = True
    if folder is not None:
        treat(pyfuncitem, ("call",), 0)
        call_for_another_process(pyfuncitem, folder)
        return True
    run_repeatedly(pyfuncitem, request)
    return True


# ---- reports ---------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure how the test was seeded, and to a report (also of a worker of xdist) what the test named."""
    report = yield
    if not asks_for_samebits(item):
        return report
    from samebits.integrations.pytest.repeating import adopt_outcome, keep_for_other_process

    options = options_of(item.config)
    if report.skipped and isinstance(report.longrepr, tuple) and Path(report.longrepr[0]).parent == _HERE:
        path, line, _ = item.reportinfo()
        report.longrepr = (os.fspath(path), (line or 0) + 1, report.longrepr[2])
    if report.when == "call":
        send_named(item, report)
    if options.folder is not None:
        keep_for_other_process(item.config, report, report.failed and call.excinfo is None, options.folder)
        return report
    if report.when == "call":
        adopt_outcome(report, call, record_of(item).ended)
    if report.failed:
        again = f"seeded from {options.seed}; again: pytest {rerun_word(item)} --samebits-seed {options.seed}"
        report.sections.append(("samebits", again))
    return report


class Reporter:
    """The results of a whole pytest run, in the process that reports it; workers of xdist send theirs to that process.

    Attributes:
        passed: id of each test that passed → what it named.
        is_whole: whether no test was left out, and no worker died.
        lines: the lines to print at the end.
        unknown: why tests could not be compared in this environment.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.asked = config, options_of(config)
        self.passed: dict[str, NamedByTest | None] = {}
        self.collected: set[str] = set()
        self.is_whole = not any("::" in word for word in config.args)
        self.lines: list[str] = []
        self.unknown: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the ids of all tests, which tell later what of the lockfile is unused."""
        self.collected |= {id_of(item) for item in session.items}

    def pytest_deselected(self, items: Iterable[pytest.Item]) -> None:
        """Note that tests were left out; with `--lf` some were not even collected, and `items` may be empty."""
        self.is_whole = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what one test named."""
        sent = getattr(report, "samebits", None)
        if sent is None:
            return
        named = named_in(report)
        if named is not None and named.unknown:
            self.unknown.append(named.unknown)
        elif report.passed:
            self.passed[sent["test"]] = named

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """Take over the results of a worker that has ended; one that died has none."""
        sent = getattr(node, "workeroutput", {}).get("samebits")
        self.is_whole &= bool(sent and sent["is_whole"])
        self.collected |= set(sent["collected"] if sent else ())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the lockfile once, and find its unused entries; a worker only sends its results."""
        output, path = getattr(self.config, "workeroutput", None), self.asked.lockfile
        if output is not None:
            output["samebits"] = {"is_whole": self.is_whole, "collected": sorted(self.collected)}
            return
        if not self.passed and not self.unknown and not path.exists():
            return
        from samebits.base.errors import SamebitsError

        try:
            self.lines += self._written(path) + self._unused(path)
        except SamebitsError as error:
            self.lines.append(f"error: {error}")
            if self.passed or self.asked.changing:
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was written, what is unused, and what is unknown in this environment."""
        lines = [*self.lines, *self.unknown]
        if lines:
            terminalreporter.section("samebits")
            for line in lines:
                terminalreporter.write_line(line)

    def _written(self, path: Path) -> list[str]:
        if self.asked.writes == "nothing":
            return []
        from samebits.testing.expected import write_named

        all_named = [named for named in self.passed.values() if named is not None]
        count = write_named(path, all_named, only_new=self.asked.writes == "new")
        return [f"{path}: {count} test{'' if count == 1 else 's'} locked anew" if count else f"{path} is as it was"]

    def _unused(self, path: Path) -> list[str]:
        from samebits.locking.lockfile import Lockfile, update
        from samebits.testing.expected import without_unused

        collected = self.collected if self.is_whole else set[str]()

        def kept(lockfile: Lockfile) -> tuple[Lockfile, list[str]]:
            return without_unused(lockfile, self.passed, collected, self.config.rootpath)

        unused = kept(Lockfile.load(path))[1] if path.exists() else []
        if not self.config.getoption("samebits_remove_unused"):
            lines = [f"unused in {path}: {why}" for why in unused]
            return [*lines, "to remove that: pytest --samebits-remove-unused"] if lines else []
        if not self.is_whole:
            return [f"{path}: nothing was removed, because not every test was run"]
        if unused:
            update(path, lambda now: kept(now)[0])
        return [f"removed from {path}: {why}" for why in unused]
