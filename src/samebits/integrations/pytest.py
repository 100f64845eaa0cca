"""The plugin for pytest: tests that have to repeat, tensors that have to stay as they are, a seed for each test.

It is part of every pytest run where samebits is installed, so it imports nothing until a test asks for it.
"""

from __future__ import annotations

import os
import shlex
import sys
from argparse import SUPPRESS
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from samebits.factors.pinning import Treatment
    from samebits.testing.entering import Entering
    from samebits.testing.expected import Expected, Named
    from samebits.testing.isolation import Ended
    from samebits.testing.repeats import Call

MARK = "samebits"
_HELP = (
    "samebits(runs=2, vary=[], isolated=False): run the test several times, each time from the same seed and with "
    "fresh fixtures, and fail where the runs diverge; vary names factors that are changed on purpose; isolated gives "
    "each run a process of its own."
)


@dataclass
class _Test:
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
    fixture: Expected | None = None
    is_set_up: bool = False
    is_called: bool = False
    named: Named | None = None
    ended: Ended | None = None

    def undo(self) -> None:
        """Leave the generators as they would be without us."""
        while self.treatments:
            self.treatments.pop().undo()
        self.entering = None
        self.is_set_up = False

    def result(self) -> Named | None:
        """What the test named."""
        return self.named if self.fixture is None else self.fixture.named


@dataclass
class _Session:
    """What is known of the whole run, in the process that reports it.

    Attributes:
        passed: what tests named that passed, or their ids alone.
        collected: ids of all tests, as far as they are known.
        is_whole: no test was left out, and no process that ran some is missing.
        lines: what is said at the end.
        unknown: why tests could not be compared here.
    """

    passed: dict[str, Named | None] = field(default_factory=dict)
    collected: set[str] = field(default_factory=set)
    is_whole: bool = True
    lines: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


_TEST: pytest.StashKey[_Test] = pytest.StashKey()
_SESSION: pytest.StashKey[_Session] = pytest.StashKey()
_SHARED: pytest.StashKey[set[int]] = pytest.StashKey()


def seed_torch(seed: int) -> None:
    """What pytest-randomly calls wherever it seeds Python and NumPy; torch is not loaded for it."""
    if "torch" in sys.modules:
        from samebits.testing.seeding import seed_torch as seed_it

        seed_it(seed)


# ---- options ---------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options, each with the plugin's name."""
    group = parser.getgroup("samebits", "samebits: tests that repeat bit for bit")
    add = group.addoption
    add("--samebits-seed", type=int, metavar="N", help="Seed every test from N (default 0, and only tests that ask).")
    add("--samebits-lockfile", metavar="PATH", help="Where expected bits are (default samebits.lock in the rootdir).")
    add("--samebits-update", action="store_true", help="Take what passing tests name as it is now into the lockfile.")
    add(
        "--samebits-update-new-only", action="store_true", help="The same for what is not locked yet, and nothing else."
    )
    add("--samebits-remove-unused", action="store_true", help="Remove what is locked and no test asks for any more.")
    add("--samebits-write-in-ci", action="store_true", help="Write the lockfile although CI is set.")
    # For a process that samebits itself starts.
    add("--samebits-call", metavar="DIR", help=SUPPRESS)


def pytest_configure(config: pytest.Config) -> None:
    """The marker, and what can be refused at once."""
    config.addinivalue_line("markers", _HELP)
    config.stash[_SESSION] = _Session()
    if _writes(config) and os.environ.get("CI") and not config.getoption("samebits_write_in_ci"):
        option = next(
            word for word in ("update", "update_new_only", "remove_unused") if config.getoption(f"samebits_{word}")
        )
        raise pytest.UsageError(
            f"--samebits-{option.replace('_', '-')} would write {_lockfile(config)}, and CI is set: "
            "add --samebits-write-in-ci if that is meant"
        )
    if not hasattr(config, "workerinput") and config.getoption("samebits_call") is None:
        config.pluginmanager.register(_Reporter(config), "samebits-reporter")


def _writes(config: pytest.Config) -> bool:
    words = ("samebits_update", "samebits_update_new_only", "samebits_remove_unused")
    return config.getoption("samebits_call") is None and any(config.getoption(word) for word in words)


def _mode(config: pytest.Config) -> str:
    """What is taken as it is now."""
    if config.getoption("samebits_update"):
        return "all"
    return "new" if config.getoption("samebits_update_new_only") else "nothing"


def _lockfile(config: pytest.Config) -> Path:
    given = config.getoption("samebits_lockfile")
    return config.rootpath / "samebits.lock" if given is None else Path(config.invocation_params.dir, given)


def _seed(config: pytest.Config) -> int:
    given = config.getoption("samebits_seed")
    return 0 if given is None else int(given)


def pytest_report_header(config: pytest.Config) -> str | None:
    """The seed, where one was given."""
    return None if config.getoption("samebits_seed") is None else f"samebits: --samebits-seed {_seed(config)}"


# ---- which tests asked -----------------------------------------------------------------------------------------------


def _id(item: pytest.Item) -> str:
    """The id of a test, without what xdist adds to it to keep groups together."""
    group = item.get_closest_marker("xdist_group")
    name = None if group is None else (group.args[0] if group.args else group.kwargs.get("name"))
    return item.nodeid.removesuffix(f"@{name}") if name else item.nodeid


def _asks(item: pytest.Item) -> bool:
    marked = item.get_closest_marker(MARK) is not None or MARK in getattr(item, "fixturenames", ())
    return marked or item.config.getoption("samebits_seed") is not None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Which fixtures tests share that asked; and a test whose runs are elsewhere needs none here."""
    shared: set[int] = set()
    for item in filter(_asks, items):
        info = getattr(item, "_fixtureinfo", None)
        for definitions in getattr(info, "name2fixturedefs", {}).values():
            shared |= {id(one) for one in definitions if one.scope != "function"}
        mark = item.get_closest_marker(MARK)
        if mark is not None and mark.kwargs.get("isolated") and config.getoption("samebits_call") is None:
            item.fixturenames = []  # type: ignore[attr-defined]
    config.stash[_SHARED] = shared


def pytest_collection_finish(session: pytest.Session) -> None:
    """What there is, for telling what is unused."""
    session.config.stash[_SESSION].collected |= {_id(item) for item in session.items}


def pytest_deselected(items: Iterable[pytest.Item]) -> None:
    """Some tests were left out, so nothing is known of what they use."""
    for item in items:
        item.config.stash[_SESSION].is_whole = False


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist tells what only it knows."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        known = session.config.stash[_SESSION]
        output["samebits"] = {"is_whole": known.is_whole, "collected": sorted(known.collected)}


# ---- one test --------------------------------------------------------------------------------------------------------


@pytest.fixture(name=MARK)
def _fixture(request: pytest.FixtureRequest) -> Expected:
    """Expected bits: `samebits.assert_same(name, tensor_or_module)` holds them against the lockfile."""
    from samebits.testing.expected import Expected

    item, config = request.node, request.config
    known = _known(item)
    if known.fixture is None:
        known.fixture = Expected(_id(item), _lockfile(config), _seed(config), _mode(config), _again(item))
    known.fixture.begin()
    return known.fixture


def _known(item: pytest.Item) -> _Test:
    return item.stash.setdefault(_TEST, _Test())


def _again(item: pytest.Item) -> str:
    """Its id as pytest shows it where it fails: from the folder in which pytest was started."""
    file, colons, within = _id(item).partition("::")
    given = os.path.relpath(item.config.rootpath / file, item.config.invocation_params.dir)
    return shlex.quote(f"{Path(given).as_posix()}{colons}{within}")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: Any) -> Generator[None, object, object]:
    """Fixtures are made from the seed of their test; those that tests share, from one of their own."""
    item = request._pyfuncitem
    if fixturedef.scope == "function":
        if _asks(item) and not _known(item).is_set_up:
            _known(item).is_set_up = True
            _treat(item, (), 0)
        return (yield)
    if id(fixturedef) not in item.config.stash.get(_SHARED, set()):
        return (yield)
    from samebits.testing.seeding import seeded

    words = request.node.nodeid, "fixture", fixturedef.argname, getattr(request, "param_index", 0)
    treatment = seeded(_seed(item.config), words)
    try:
        return (yield)
    finally:
        treatment.undo()


def _treat(item: pytest.Item, words: tuple[str, ...], variant: int) -> None:
    """Put the streams of a test in force, and change what is to be varied."""
    from samebits.testing import seeding

    varied = _request(item).vary
    if words:
        # The others are in force since the fixtures were made: a listing turned round twice is as it was.
        varied = tuple(filter(seeding.is_generator, varied))
    settings = {**_task_settings(item.config), **seeding.varied(varied, variant)}
    treatment = seeding.seeded(_seed(item.config), (_id(item), *words), settings)
    _known(item).treatments.append(treatment)
    _watch(item)
    for line in seeding.untouched(treatment):
        from samebits.base.errors import UnseenWarning

        item.warn(UnseenWarning(line))


def _watch(item: pytest.Item) -> None:
    """Look for what no seed holds, where runs are compared; fixtures of the test's own are looked at, too."""
    known, is_alone = _known(item), item.config.getoption("samebits_call") is not None
    if known.entering is None and (is_alone or _request(item).runs > 1):
        from samebits.testing.entering import Entering

        known.entering = Entering(is_alone)
        known.treatments.append(known.entering)


def _task_settings(config: pytest.Config) -> Any:
    folder = config.getoption("samebits_call")
    if folder is None:
        return {}
    from samebits.testing.isolation import read_task

    return read_task(Path(folder)).settings


@dataclass(frozen=True)
class _Request:
    """What the marker of a test asks for."""

    runs: int = 1
    vary: tuple[str, ...] = ()
    is_isolated: bool = False


def _request(item: pytest.Item) -> _Request:
    mark = item.get_closest_marker(MARK)
    if mark is None or item.config.getoption("samebits_call") is not None:
        return _Request()
    return _checked(item, *mark.args, **mark.kwargs)


def _checked(
    item: pytest.Item, *args: object, runs: object = 2, vary: Any = (), isolated: object = False, **more: object
) -> _Request:
    from samebits.base.errors import SamebitsError
    from samebits.testing.seeding import check_varied

    if args or more:
        _fail(f"the marker samebits takes runs, vary and isolated, got {', '.join([*map(repr, args), *more])}")
    if not isinstance(runs, int) or runs < 2:
        _fail(f"runs must be at least 2, got {runs!r}")
    if not isinstance(item, pytest.Function) or hasattr(item, "_testcase") or type(item).__name__ == "TestCaseFunction":
        _fail(
            "the marker samebits is for test functions, not for tests of unittest: there, samebits.assert_repeats() "
            "calls any function twice"
        )
    try:
        return _Request(runs, check_varied(vary, bool(isolated)), bool(isolated))
    except SamebitsError as error:
        _fail(str(error))


def _fail(message: str) -> NoReturn:
    """Fail the test with this text alone: neither our own lines nor what was raised on the way belong to it."""
    raise pytest.fail.Exception(message, pytrace=False) from None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A marker that makes no sense fails before anything runs."""
    _request(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """What was locked elsewhere only is neither red nor green; what was not called by us was not compared."""
    if not _asks(item):
        yield
        return
    known = _known(item)
    known.is_called, known.ended = False, None
    yield
    if not known.is_called and _is_compared(item):
        _fail(
            f"{item.name} was called by another plugin, so it was neither repeated nor recorded: inside it, "
            "samebits.assert_repeats() calls any function twice"
        )
    named = known.result()
    if named is not None and named.unknown:
        pytest.skip(named.unknown)


def _is_compared(item: pytest.Item) -> bool:
    """Whether it has several runs, or is one of them."""
    return _request(item).runs > 1 or item.config.getoption("samebits_call") is not None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Afterwards the generators are as they would be without us."""
    try:
        yield
    finally:
        if item.stash.get(_TEST, None) is not None:
            _known(item).undo()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test as it asked."""
    if not _asks(pyfuncitem):
        return None
    folder = pyfuncitem.config.getoption("samebits_call")
    request = _request(pyfuncitem)
    if folder is None and request.runs == 1:
        _treat(pyfuncitem, ("call",), 0)
        return None
    if not request.is_isolated and _is_async(pyfuncitem.obj):
        # Another plugin may know how to call it; pytest says so where none does.
        return None
    _known(pyfuncitem).is_called = True
    if folder is not None:
        _treat(pyfuncitem, ("call",), 0)
        _call_for_another_process(pyfuncitem, Path(folder))
        return True
    _run_repeatedly(pyfuncitem, request)
    return True


def _is_async(function: object) -> bool:
    """Whether it is as it was written: a plugin that can call it may put a plain function in its place."""
    import inspect

    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


# ---- several runs ----------------------------------------------------------------------------------------------------


def _run_repeatedly(item: pytest.Function, request: _Request) -> None:
    from tempfile import TemporaryDirectory

    from samebits.base.errors import SamebitsError
    from samebits.testing.expected import unlike
    from samebits.testing.repeats import difference, nothing_in, unseen_in

    calls: list[Call] = []
    first: Mapping[str, str] = {}
    with TemporaryDirectory(prefix="samebits-") as home:
        for number in range(request.runs):
            call = _one_of_several(item, request, calls, Path(home, str(number)))
            named = _names_of(item)
            try:
                words = (difference(calls[0], call) or unlike(first, named)) if calls else ""
            except SamebitsError as error:
                _fail(str(error))
            if words:
                _fail(f"runs 1 and {number + 1} diverge: {words}\n\nhint: {_hint(request, number, [*calls, call])}")
            calls.append(call)
            first = first or named
        name = item.originalname or item.name
        unseen = unseen_in(name, calls)
        if not first and not any(call.has_anything for call in calls):
            _fail(f"{nothing_in(name)}{f', and {unseen}' if unseen else ''}")
    if unseen:
        from samebits.base.errors import UnseenWarning

        item.warn(UnseenWarning(unseen))


def _names_of(item: pytest.Item) -> Mapping[str, str]:
    named = _known(item).result()
    return {} if named is None else dict(named.tensors)


def _hint(request: _Request, number: int, calls: Iterable[Call]) -> str:
    changed = f"in run {number + 1} {', '.join(request.vary)} had another value; " if request.vary else ""
    entered = list(dict.fromkeys(line for call in calls for line in call.left.entered))
    if request.is_isolated:
        whole = f"{changed}each run had a process of its own, from the same seed"
        return f"{whole}{_entered(entered) or ': samebits check says what else can differ'}"
    whole = f"{changed}both runs started from the same seed, with fresh fixtures"
    shared = "the process: fixtures of a wider scope, variables of modules, files"
    own = "isolated=True gives each run a process of its own"
    if entered:
        return f"{whole}{_entered(entered)}\nor it is what they shared, {shared}; against that alone, {own}"
    unseen = "the clock and the operating system's entropy, against which it does not help, were not seen to enter"
    return f"{whole}; what they shared is {shared}. {own}; {unseen}"


def _entered(lines: list[str]) -> str:
    from samebits.testing.entering import MOST_TOLD

    more = [f"and {len(lines) - MOST_TOLD} more"] if len(lines) > MOST_TOLD else []
    told = [*lines[:MOST_TOLD], *more]
    return "".join(["; what no seed holds was seen to enter:", *(f"\n  {line}" for line in told)]) if lines else ""


def _one_of_several(item: pytest.Function, request: _Request, before: list[Call], folder: Path) -> Call:
    from samebits.base.errors import SamebitsError

    one, number = _in_own_process if request.is_isolated else _in_this_process, len(before)
    if number == 0:
        return one(item, request, number, folder)
    try:
        return one(item, request, number, folder)
    except SamebitsError as error:
        if error.kind != "divergence":
            raise
        raised: BaseException = error
    except (Exception, pytest.skip.Exception, pytest.fail.Exception) as error:
        raised = error
    ended = "was skipped" if isinstance(raised, pytest.skip.Exception) else "failed"
    why = f"run {number + 1} {ended}, and run 1 did not\n{type(raised).__name__}: {raised}"
    _fail(f"runs 1 and {number + 1} diverge: {why}\n\nhint: {_hint(request, number, before)}")


def _in_this_process(item: pytest.Function, request: _Request, number: int, folder: Path) -> Call:
    import inspect

    from samebits.testing.repeats import recorded_call

    if number:
        _make_fixtures_again(item, number)
    _treat(item, ("call",), number)
    function = item.obj
    if _is_async(inspect.unwrap(function)):
        _fail("an async test cannot be called twice in one process: add isolated=True")
    folder.mkdir()
    return recorded_call(folder, function, (), _arguments(item), _known(item).entering)


def _arguments(item: pytest.Function) -> dict[str, object]:
    return {name: item.funcargs[name] for name in item._fixtureinfo.argnames}


def _make_fixtures_again(item: pytest.Function, variant: int) -> None:
    """What a test got of its own is taken down and made anew, as between two tests; so is its object."""
    state = item.session._setupstate
    assert item.parent is not None
    state.teardown_exact(item.parent)  # type: ignore[arg-type]
    _known(item).undo()
    if item.cls is not None:
        vars(item).pop("_obj", None)
        vars(item).pop("_instance", None)
    item._initrequest()
    _known(item).is_set_up = True
    _treat(item, (), variant)
    state.setup(item)


def _in_own_process(item: pytest.Function, request: _Request, number: int, folder: Path) -> Call:
    from samebits.base.errors import SamebitsError
    from samebits.testing import isolation, seeding

    try:
        settings = seeding.varied(request.vary, number)
        call, named, ended = isolation.isolated_call(folder, _id(item), _arguments_for(item), settings)
    except isolation.TestFailedError as error:
        _fail(f"in a process of its own:\n{error}")
    except isolation.TestSkippedError as error:
        if number == 0:
            _known(item).ended = error.ended
        if error.ended.reason is None:
            pytest.skip(str(error).removeprefix("Skipped: "))
        _fail(f"in a process of its own:\n{error}")
    except SamebitsError as error:
        _fail(str(error))
    _known(item).named = named
    if number == 0:
        _known(item).ended = ended
    return call


def _arguments_for(item: pytest.Function) -> list[str]:
    """What a pytest needs to run this test alone as it would be run here."""
    config = item.config
    options = ["--rootdir", str(config.rootpath), "-o", "addopts=", "-q", "--tb", "short", "-p", "no:cacheprovider"]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    for name in config.getoption("plugins") or ():
        options += ["-p", name]
    for word in config.getoption("override_ini") or ():
        options += ["-o", word]
    options += ["--import-mode", config.getoption("importmode")]
    options += ["--runxfail"] if config.getoption("runxfail") else []
    options += ["--samebits-seed", str(_seed(config)), "--samebits-lockfile", str(_lockfile(config))]
    options += {"all": ["--samebits-update"], "new": ["--samebits-update-new-only"], "nothing": []}[_mode(config)]
    _, _, within = _id(item).partition("::")
    return [*options, f"{item.path}::{within}"]


def _call_for_another_process(item: pytest.Function, folder: Path) -> None:
    from samebits.testing import isolation
    from samebits.testing.repeats import recorded_call

    known = _known(item)
    recorded_call(isolation.call_folder(folder), item.obj, (), _arguments(item), known.entering)
    isolation.keep_named(folder, known.result())


# ---- reports ---------------------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure says how the test was seeded; what was named travels with the report, also from a worker of xdist."""
    report = yield
    if not _asks(item):
        return report
    folder = item.config.getoption("samebits_call")
    if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[0] == __file__:
        path, line, _ = item.reportinfo()
        report.longrepr = (os.fspath(path), (line or 0) + 1, report.longrepr[2])
    if folder is not None:
        _tell(report, call, Path(folder))
    elif report.when == "call":
        _take_over(report, call, _known(item).ended)
    if report.failed and folder is None:
        seed = _seed(item.config)
        again = f"seeded from {seed}; again: pytest {_again(item)} --samebits-seed {seed}"
        report.sections.append(("samebits", again))
    if report.when == "call":
        named = _known(item).result()
        report.samebits = {"test": _id(item), "named": None if named is None else vars(named)}  # type: ignore[attr-defined]
    return report


def _tell(report: pytest.TestReport, call: pytest.CallInfo[None], folder: Path) -> None:
    """Keep what pytest makes of the test for the process that compares: it was skipped, or a failure was expected."""
    reason = getattr(report, "wasxfail", None)
    is_missed = report.failed and call.excinfo is None
    if not (report.skipped or is_missed or reason is not None):
        return
    from samebits.testing.isolation import Ended, keep_ended

    place, text = None, report.longreprtext
    if isinstance(report.longrepr, tuple):
        path, line, text = report.longrepr
        place = path, line
    keep_ended(folder, Ended(report.outcome, reason, text, place))
    if is_missed:
        # A strict xfail that passed: its runs can be compared, and the other process fails the test.
        report.outcome = "passed"


def _take_over(report: pytest.TestReport, call: pytest.CallInfo[None], ended: Ended | None) -> None:
    """What pytest made of the test in a process of its own counts here, unless its runs diverged."""
    if ended is None or (call.excinfo is not None and ended.outcome != "skipped"):
        return
    report.outcome = ended.outcome
    if ended.reason is not None:
        report.wasxfail = ended.reason
    elif ended.place is not None:
        report.longrepr = (*ended.place, ended.text)
    if ended.outcome == "failed":
        report.longrepr = ended.text


class _Reporter:
    """What arrives in the process that reports: this one, or the one that distributes the tests of xdist."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.known = config, config.stash[_SESSION]
        if any("::" in word for word in config.args):
            self.known.is_whole = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What one test named."""
        sent = getattr(report, "samebits", None)
        if sent is None:
            return
        from samebits.testing.expected import named_from

        named = None if sent["named"] is None else named_from(sent["named"])
        if named is not None and named.unknown:
            self.known.unknown.append(named.unknown)
        elif report.passed:
            self.known.passed[sent["test"]] = named

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Iterable[str]) -> None:
        """What a worker has; each has all of it."""
        self.known.collected |= set(ids)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """A worker has ended, or died."""
        sent = getattr(node, "workeroutput", {}).get("samebits")
        self.known.is_whole &= bool(sent and sent["is_whole"])
        self.known.collected |= set(sent["collected"] if sent else ())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """The lockfile is written once, and what it holds for nobody is found."""
        known, path = self.known, _lockfile(self.config)
        if not known.passed and not known.unknown and not path.exists():
            return
        from samebits.base.errors import SamebitsError

        try:
            known.lines += self._written(path) + self._unused(path)
        except SamebitsError as error:
            known.lines.append(f"error: {error}")
            if known.passed or _writes(self.config):
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What was written, what is unknown here, and what is unused."""
        lines = [*self.known.lines, *self.known.unknown]
        if lines:
            terminalreporter.section("samebits")
            for line in lines:
                terminalreporter.write_line(line)

    def _written(self, path: Path) -> list[str]:
        if _mode(self.config) == "nothing":
            return []
        from samebits.testing.expected import write_named

        found = [named for named in self.known.passed.values() if named is not None]
        count = write_named(path, found, only_new=_mode(self.config) == "new")
        return [f"{path}: {count} test{'' if count == 1 else 's'} locked anew" if count else f"{path} is as it was"]

    def _unused(self, path: Path) -> list[str]:
        from samebits.testing.expected import remove_unused, unused_in

        files: dict[str, set[str]] = {}
        for test in self.known.collected if self.known.is_whole else ():
            files.setdefault(test.partition("::")[0], set()).add(test)
        passed = [test if named is None else named for test, named in self.known.passed.items()]
        unused = unused_in(path, passed, files, self.config.rootpath)
        if not self.config.getoption("samebits_remove_unused"):
            lines = [f"unused in {path}: {one.why}" for one in unused]
            return [*lines, "to remove that: pytest --samebits-remove-unused"] if lines else []
        if not self.known.is_whole:
            return [f"{path}: nothing was removed, because not every test was run"]
        remove_unused(path, unused)
        return [f"removed from {path}: {one.why}" for one in unused]
