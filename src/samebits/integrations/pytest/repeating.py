"""Several runs of one test, in this process or each in a process of its own, and their comparison.

This module is imported only when a test has asked for samebits, so it may import everything.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from samebits.base.errors import SamebitsError, UnseenWarning
from samebits.integrations.pytest.asked import Repetition, fail, id_of, named_in, options_of, record_of, treat
from samebits.launch.command import Command
from samebits.launch.process import Outcome, run_in
from samebits.runfolder.spec import RunSpec
from samebits.testing.repeats import (
    RecordedCall,
    difference,
    is_complete,
    nothing_in,
    read_call,
    recorded_call,
    unseen_in,
)
from samebits.testing.seeding import MOST_TOLD, is_generator, varied_settings
from samebits.workspace.workspace import Workspace

# In the folder of a run that has a process of its own: the recorded call, and pytest's reports.
_CALL, _REPORTS = "call", "reports.jsonl"
_MOST_PRINTED = 4000
# Variables that pytest itself, or a plugin that distributes tests, sets for the processes it starts.
_NOT_PASSED_ON = ("PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_")
# In a process of its own samebits is loaded before pytest, which warns that it cannot rewrite the plugin's asserts.
_LOADED_BEFORE = "ignore:Module already imported so cannot be rewritten; samebits:pytest.PytestAssertRewriteWarning"


def is_async(function: object) -> bool:
    """Whether a function is async; a plugin that can call it may have replaced it by a plain function."""
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def run_repeatedly(item: pytest.Function, request: Repetition) -> None:
    """Make the runs of a test, and fail it if one of them diverges from the first."""
    calls: list[RecordedCall] = []
    with TemporaryDirectory(prefix="samebits-") as home:
        for number in range(request.runs):
            call = _one_of_several(item, request, calls, Path(home, str(number)))
            named = record_of(item).result()
            call = call if named is None else replace(call, named=named.given.tensors)
            try:
                words = difference(calls[0], call) if calls else ""
            except SamebitsError as error:
                fail(str(error))
            if words:
                fail(f"runs 1 and {number + 1} diverge: {words}\n\nhint: {_hint(request, number, [*calls, call])}")
            calls.append(call)
        name = item.originalname or item.name
        unseen = unseen_in(name, calls)
        if not any(call.has_anything for call in calls):
            fail(f"{nothing_in(name)}{f', and {unseen}' if unseen else ''}")
    if unseen:
        item.warn(UnseenWarning(unseen))


def _hint(request: Repetition, number: int, calls: Iterable[RecordedCall]) -> str:
    changed = f"in run {number + 1} {', '.join(request.vary)} had another value; " if request.vary else ""
    entered = list(dict.fromkeys(line for call in calls for line in call.entered))
    if request.is_isolated:
        start = f"{changed}each run had a process of its own, from the same seed"
        return f"{start}{_entered(entered) or ': samebits check says what else can differ'}"
    start = f"{changed}both runs started from the same seed, with fresh fixtures"
    shared = "the process: fixtures of a wider scope, variables of modules, files"
    remedy = "isolated=True gives each run a process of its own"
    if entered:
        return f"{start}{_entered(entered)}\nor the cause is what they shared, {shared}; only against that, {remedy}"
    unseen = "clock and entropy of the operating system, against which isolation does not help, were not seen to enter"
    return f"{start}; what they shared is {shared}. {remedy}; {unseen}"


def _entered(lines: list[str]) -> str:
    more = [f"and {len(lines) - MOST_TOLD} more"] if len(lines) > MOST_TOLD else []
    shown = [*lines[:MOST_TOLD], *more]
    words = ["; these were seen to enter, and no seed controls them:", *(f"\n  {line}" for line in shown)]
    return "".join(words) if lines else ""


def _one_of_several(
    item: pytest.Function, request: Repetition, before: list[RecordedCall], folder: Path
) -> RecordedCall:
    make_run, number = _in_own_process if request.is_isolated else _in_this_process, len(before)
    if number == 0:
        return make_run(item, request, number, folder)
    try:
        return make_run(item, request, number, folder)
    except SamebitsError as error:
        if error.kind != "divergence":
            raise
        raised: BaseException = error
    except (Exception, pytest.skip.Exception, pytest.fail.Exception) as error:
        raised = error
    ended = "was skipped" if isinstance(raised, pytest.skip.Exception) else "failed"
    why = f"run {number + 1} {ended}, and run 1 did not\n{type(raised).__name__}: {raised}"
    fail(f"runs 1 and {number + 1} diverge: {why}\n\nhint: {_hint(request, number, before)}")


def _in_this_process(item: pytest.Function, request: Repetition, number: int, folder: Path) -> RecordedCall:
    if number:
        _make_fixtures_again(item, number)
    treat(item, ("call",), number)
    function = item.obj
    if is_async(inspect.unwrap(function)):
        fail("an async test cannot be called twice in one process: add isolated=True")
    return recorded_call(folder, function, (), _arguments(item), record_of(item).entering)


def _arguments(item: pytest.Function) -> dict[str, object]:
    return {name: item.funcargs[name] for name in item._fixtureinfo.argnames}


def _make_fixtures_again(item: pytest.Function, variant: int) -> None:
    """Tear down and remake the test's own fixtures, and the object of its class, as between two tests."""
    state = item.session._setupstate
    assert item.parent is not None
    state.teardown_exact(item.parent)  # type: ignore[arg-type]
    record_of(item).undo()
    if item.cls is not None:
        vars(item).pop("_obj", None)
        vars(item).pop("_instance", None)
    item._initrequest()
    record_of(item).is_set_up = True
    treat(item, (), variant)
    state.setup(item)


def _in_own_process(item: pytest.Function, request: Repetition, number: int, folder: Path) -> RecordedCall:
    record = record_of(item)
    try:
        outcome = _run_alone(item, request, number, folder)
        call = read_call(folder / _CALL) if is_complete(folder / _CALL) else None
    except SamebitsError as error:
        fail(str(error))
    printed = outcome.folder.stdout.read_text(errors="replace")
    if outcome.exit_code == 1:
        fail(f"in a process of its own:\n{printed}")
    reports = _reports_in(folder, item.config)
    ended = next((one for one in reports if one.outcome != "passed" or hasattr(one, "wasxfail")), None)
    if outcome.exit_code == 0 and number == 0:
        record.ended = ended
    if outcome.exit_code == 0 and ended is not None and ended.outcome == "skipped":
        if not hasattr(ended, "wasxfail"):
            pytest.skip(_text_of(ended).removeprefix("Skipped: "))
        fail(f"in a process of its own:\n{_text_of(ended)}")
    if outcome.exit_code != 0 or call is None:
        output = f"{printed}\n{outcome.folder.stderr.read_text(errors='replace')}".strip()[-_MOST_PRINTED:]
        fail(f"{id_of(item)} did not run in a process of its own: pytest {outcome.described}\n\nhint: {output}")
    record.named = next((named for one in reports if (named := named_in(one)) is not None), None)
    return call


def _run_alone(item: pytest.Function, request: Repetition, number: int, folder: Path) -> Outcome:
    """Start pytest for this test alone, under a plan like every run."""
    folder.mkdir()
    # In that process, generators are treated for each test, other factors when it starts.
    settings = varied_settings([name for name in request.vary if not is_generator(name)], number)
    dropped = [f"-u{name}" for name in os.environ if name.startswith(_NOT_PASSED_ON)]
    arguments = _arguments_for(item, folder, number)
    words = ("env", *dropped, sys.executable, "-m", "pytest", *arguments, "-W", _LOADED_BEFORE)
    # The test is one of the user's, and runs in the user's own folder, not in a copy.
    workspace, plan = Workspace(folder, "none"), RunSpec("test", settings, record=False)
    return run_in(workspace, Command(words, words), plan, folder / "process")


def _arguments_for(item: pytest.Function, folder: Path, number: int) -> list[str]:
    """Return the arguments with which pytest makes this run of this test alone, as it would be made here."""
    config, given = item.config, options_of(item.config)
    options = ["--rootdir", str(config.rootpath), "-o", "addopts=", "-q", "--tb", "short", "-p", "no:cacheprovider"]
    if config.inipath is not None:
        options += ["-c", str(config.inipath)]
    for name in config.getoption("plugins") or ():
        options += ["-p", name]
    for word in config.getoption("override_ini") or ():
        options += ["-o", word]
    options += ["--import-mode", config.getoption("importmode")]
    options += ["--runxfail"] if config.getoption("runxfail") else []
    options += ["--samebits-call", str(folder), "--samebits-variant", str(number)]
    options += ["--samebits-seed", str(given.seed), "--samebits-lockfile", str(given.lockfile)]
    options += {"all": ["--samebits-update"], "new": ["--samebits-update-new-only"], "nothing": []}[given.writes]
    _, _, within = id_of(item).partition("::")
    return [*options, f"{item.path}::{within}"]


def call_for_another_process(item: pytest.Function, folder: Path) -> None:
    """Make one run of a test, for the process that compares it with others."""
    recorded_call(folder / _CALL, item.obj, (), _arguments(item), record_of(item).entering)


# ---- what pytest made of it ------------------------------------------------------------------------------------------


def keep_for_other_process(config: pytest.Config, report: pytest.TestReport, is_missed: bool, folder: Path) -> None:
    """Keep pytest's report of the test, its setup or its teardown, for the process that compares."""
    sent = config.hook.pytest_report_to_serializable(config=config, report=report)
    with open(folder / _REPORTS, "a", encoding="utf-8") as file:
        file.write(f"{json.dumps(sent)}\n")
    if is_missed:
        # A strict xfail that passed: its runs can be compared, and the other process fails the test.
        report.outcome = "passed"


def adopt_outcome(report: pytest.TestReport, call: pytest.CallInfo[None], ended: pytest.TestReport | None) -> None:
    """Take over the outcome of the test in a process of its own, unless its runs diverged."""
    if ended is None or (call.excinfo is not None and ended.outcome != "skipped"):
        return
    report.outcome = ended.outcome
    if hasattr(ended, "wasxfail"):
        report.wasxfail = ended.wasxfail
    elif isinstance(ended.longrepr, tuple) or ended.outcome == "failed":
        report.longrepr = ended.longrepr


def _reports_in(folder: Path, config: pytest.Config) -> list[pytest.TestReport]:
    """Return the reports that the other process kept."""
    path, reports = folder / _REPORTS, []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        sent = json.loads(line)
        # JSON has no tuples, and pytest recognizes the place of a skip by its being a tuple.
        place = {"longrepr": tuple(sent["longrepr"])} if isinstance(sent["longrepr"], list) else {}
        reports.append(config.hook.pytest_report_from_serializable(config=config, data={**sent, **place}))
    return reports


def _text_of(report: pytest.TestReport) -> str:
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
