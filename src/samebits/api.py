"""The commands as functions: check and verdict, lock and verify, compare two runs, assert that a function repeats."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from samebits.agent.session import path_given
from samebits.base.errors import DivergenceError, StorageError, UnseenWarning, UsageError
from samebits.checking.experiments import check_in
from samebits.checking.mending import assert_may_fix
from samebits.checking.plan import check_request
from samebits.checking.pool import PoolContext
from samebits.checking.verdict import CheckVerdict
from samebits.comparison.runs import RunComparison, compare_runs
from samebits.launch.config import Config, read_config
from samebits.locking.lockfile import NAME as LOCKFILE
from samebits.locking.making import LockRequest, need_to_write
from samebits.locking.making import lock as make_lock
from samebits.locking.verdict import EntriesVerified, EntryLocked
from samebits.locking.verifying import VerifyRequest
from samebits.locking.verifying import verify as verify_entries
from samebits.report.answers import document_of, json_text, read_verdict
from samebits.report.diffs import comparison_text
from samebits.report.locks import lock_report, verify_report
from samebits.report.progress import progress as show_progress
from samebits.report.text import check_report
from samebits.runfolder.folder import HOME, new_home, newest_in, open_run, write_answer
from samebits.testing.repeats import difference, nothing_in, recorded_call, unseen_in
from samebits.workspace.place import Isolation


class Verdict(CheckVerdict):
    """The result of a check, as data; as a string, it is what `samebits check` prints."""

    def __str__(self) -> str:
        return check_report(self).text


def check(
    command: str | Sequence[str],
    *,
    pins: Sequence[str] = (),
    vary: Sequence[str] = (),
    seed: int | None = None,
    runs: int | None = None,
    max_runs: int | None = None,
    jobs: int | Literal["auto"] | None = None,
    max_steps: int | None = None,
    timeout: float | None = None,
    level: str | None = None,
    all_origins: bool = False,
    quick: bool = False,
    isolation: Isolation | None = None,
    share: Sequence[str] = (),
    ignore: Sequence[str] = (),
    strict: bool = False,
    diff: bool = False,
    fix: bool = False,
    fix_in_ci: bool = False,
    out: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Verdict:
    """Check in the current folder whether a command repeats bit for bit, like `samebits check`; nothing is printed.

        verdict = samebits.check("train.py --lr 3", max_steps=50)
        if verdict.kind == "different":
            print(verdict)                        # what the command line prints
            print(verdict.causes[0].site)         # the line that lets the first cause in

    An argument that is left out has the value of `[tool.samebits]` in pyproject.toml, else the default of the command.
    Call it from the main thread: Ctrl-C and SIGTERM end every run, and Python hands signals to that thread.

    Args:
        command: the command, as words or as one line, split as a shell would; `train.py` means `python train.py`.
        pins: factors to pin in every run, each `NAME` or `NAME=VALUE`.
        vary: factors to vary in addition to those varied by default.
        seed: the root of all pinned streams.
        runs: how many runs are made before anything is judged: two controls, the rest varied.
        max_runs: the budget: at most this many runs in total.
        jobs: how many runs at a time; `"auto"` means as many as cores and memory allow.
        max_steps: check only this many first steps.
        timeout: seconds after which a run is ended.
        level: `op` also names the operation at which runs diverge; the default is `step`.
        all_origins: with `level="op"`, name further operations, too.
        quick: look at the first seconds of training only.
        isolation: `copy` begins every run in a copy of the current folder; with `none`, all runs share it.
        share: paths that the copies show without copying them.
        ignore: files and folders that are not compared; `*` matches anything.
        strict: runs that agree in what was trained, but differ in what else happened, are `different`, too.
        diff: make a patch for the causes, and prove it by a check of the patched script; it is the verdict's `patch`.
        fix: also apply that patch to the files, if the patched script repeats.
        fix_in_ci: apply the patch even if `CI` is set.
        out: an empty folder for the runs; by default, a new one under `.samebits/`.
        progress: show on stderr how far the runs are, where that is a terminal, and what else is worth knowing.

    Returns:
        The verdict. Where it is `undecided`, its `error` says why, if anything failed.

    Raises:
        UsageError: the arguments contradict each other, this is not the main thread, or `fix` is asked for where `CI`
            is set.
        CommandNotFoundError: there is no such script or program.
        StorageError: the folder for the runs cannot be written.
    """
    _need_the_main_thread("check")
    assert_may_fix(os.environ, fix, fix_in_ci)
    config, words = read_config(), {"pins": _words("pins", pins), "vary": _words("vary", vary)}
    request = check_request(
        _command(command), config, **words, seed=seed, runs=runs, max_runs=max_runs, jobs=jobs, max_steps=max_steps,
        timeout=timeout, level=level, all_origins=all_origins, quick=quick, isolation=isolation,
        share=_words("share", share), ignore=_words("ignore", ignore), strict=strict,
        patch="fix" if fix else "diff" if diff else "",
    )  # fmt: skip
    with _home(out, config) as home:
        result = check_in(_context(home, progress), request)
        _keep(home, result)
    return Verdict(**vars(result))


def _keep(home: Path, found: CheckVerdict) -> None:
    """Keep a verdict next to its runs; if that fails, warn only."""
    try:
        write_answer(home, json_text(document_of("check", found)))
    except StorageError as error:
        warnings.warn(f"{error.message}, so there will be no page of it", stacklevel=3)


def _need_the_main_thread(name: str) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            f"{name}() was called from a thread", "call it from the main one: a signal has to end every run"
        )


def _home(out: str | os.PathLike[str] | None, config: Config) -> AbstractContextManager[Path]:
    return new_home(None if out is None else path_given("out", out), config.keep)


def _command(command: str | Sequence[str]) -> list[str]:
    try:
        return shlex.split(command) if isinstance(command, str) else [*command]
    except ValueError as error:
        raise UsageError(f"command {command!r} is no command line: {error}", "give a list of words") from error


def _words(name: str, words: Sequence[str]) -> tuple[str, ...]:
    if isinstance(words, str):
        raise UsageError(f"{name} takes a list of words, got the string {words!r}", f"write [{words!r}]")
    return tuple(words)


def verdict(folder: str | os.PathLike[str] = HOME) -> Verdict:
    """Return the verdict of an earlier check.

        samebits.verdict(".samebits/20260131-120000-4711").kind

    Args:
        folder: the folder of a check; `.samebits` stands for the newest check, measurement or run in it.

    Raises:
        RecordingError: the folder holds no verdict, or one made by a newer samebits.
    """
    return Verdict(**vars(read_verdict(newest_in(path_given("folder", folder)))))


class Locking(EntryLocked):
    """The result of locking, as data; as a string, it is what `samebits lock` prints."""

    def __str__(self) -> str:
        return lock_report(self).text


def lock(
    command: str | Sequence[str],
    *,
    name: str = "",
    pins: Sequence[str] = (),
    seed: int | None = None,
    max_steps: int | None = None,
    data: Sequence[str] = (),
    artifacts: Sequence[str] = (),
    quick: bool = False,
    no_check: bool = False,
    isolation: Isolation | None = None,
    share: Sequence[str] = (),
    ignore: Sequence[str] = (),
    replace: bool = False,
    timeout: float | None = None,
    lockfile: str | os.PathLike[str] = LOCKFILE,
    write_in_ci: bool = False,
    out: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Locking:
    """Write the bits that a command gives into a lockfile, like `samebits lock`; nothing is printed.

        samebits.lock("train.py --lr 3", max_steps=50, pins=["cpu-threads=2"])

    Args:
        command: the command, as in `samebits.check`.
        name: the name of the entry; by default, the name of the script.
        pins: factors to pin, now and whenever the entry is verified, each `NAME` or `NAME=VALUE`.
        seed: the root of all pinned streams.
        max_steps: lock only this many first steps.
        data: files and folders that must not change.
        artifacts: files that the command makes, compared byte for byte; `{run}` stands for the run's own folder.
        quick: look at the first seconds of training only, to see whether the command repeats.
        no_check: do not check whether the command repeats; the lockfile says so.
        isolation: `copy` begins every run in a copy of the current folder; with `none`, all runs share it.
        share: paths that the copies show without copying them.
        ignore: files and folders that the check does not compare; `*` matches anything.
        replace: discard what is locked under that name, for every machine.
        timeout: seconds after which a run is ended.
        lockfile: the path of the lockfile.
        write_in_ci: write even if `CI` is set.
        out: an empty folder for the runs; by default, a new one under `.samebits/`.
        progress: show on stderr how far the runs are, where that is a terminal.

    Returns:
        What was locked. Where the command does not repeat, `kind` is `different`, and nothing was written.

    Raises:
        UsageError: the arguments contradict each other, `CI` is set, or this is not the main thread.
        LockfileError: the lockfile cannot be used, or the name is that of another command.
        CommandNotFoundError: there is no such script or program.
        StorageError: the lockfile, or the folder for the runs, cannot be written.
    """
    _need_the_main_thread("lock")
    need_to_write(os.environ, write_in_ci)
    config = read_config()
    options: dict[str, Any] = {"pins": _words("pins", pins), "seed": seed, "max_steps": max_steps, "timeout": timeout}
    options |= {"isolation": isolation, "share": _words("share", share), "ignore": _words("ignore", ignore)}
    request = LockRequest(
        tuple(_command(command)),
        path_given("lockfile", lockfile),
        name,
        data=_words("data", data),
        artifacts=_words("artifacts", artifacts),
        quick=quick,
        no_check=no_check,
        replace=replace,
        **config.filling(options),
    )
    with _home(out, config) as home:
        result = make_lock(request, _context(home, progress))
        if result.check is not None:
            _keep(home, result.check)
    return Locking(**vars(result))


class Verification(EntriesVerified):
    """The result of verifying, as data; as a string, it is what `samebits verify` prints."""

    def __str__(self) -> str:
        return verify_report(self).text


def verify(
    *names: str,
    recording: str | os.PathLike[str] | None = None,
    update: bool = False,
    update_new_only: bool = False,
    timeout: float | None = None,
    isolation: Isolation | None = None,
    share: Sequence[str] = (),
    ignore: Sequence[str] = (),
    lockfile: str | os.PathLike[str] = LOCKFILE,
    write_in_ci: bool = False,
    out: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Verification:
    """Verify that locked commands still give the locked bits, like `samebits verify`; nothing is printed.

        found = samebits.verify("train")
        if found.kind == "different":
            print(found)                                   # what the command line prints
            print(found.entries[0].divergences[0].step)    # the first step that is seen to differ

    Args:
        *names: the names of entries; none means all.
        recording: a run folder; nothing is run, and its recording is compared with its entry.
        update: write the bits of this run where they differ or are new.
        update_new_only: write only what was never locked for this environment.
        timeout: seconds after which a run is ended.
        isolation: `copy` begins every run in a copy of the current folder; with `none`, all runs share it.
        share: paths that the copies show without copying them.
        ignore: files and folders that the check does not compare; `*` matches anything.
        lockfile: the path of the lockfile.
        write_in_ci: write even if `CI` is set.
        out: an empty folder for the runs; by default, a new one under `.samebits/`.
        progress: show on stderr how far the runs are, where that is a terminal.

    Returns:
        The result for each entry: `same`, `different`, `unknown` where the environment was never locked, or
        `undecided`, and then its `error` says why.

    Raises:
        UsageError: the arguments contradict each other, `CI` is set, or this is not the main thread.
        LockfileError: the lockfile cannot be used, or has no such entry.
        RecordingError: the recording cannot be used, or is of another command.
        StorageError: the lockfile, or the folder for the runs, cannot be written.
    """
    _need_the_main_thread("verify")
    config = read_config()
    recorded = None if recording is None else open_run(path_given("recording", recording))
    options: dict[str, Any] = {"timeout": timeout, "isolation": isolation}
    options |= {"share": _words("share", share), "ignore": _words("ignore", ignore)}
    request = VerifyRequest(
        path_given("lockfile", lockfile), names, recorded, update, update_new_only, **config.filling(options)
    )
    if request.writes:
        need_to_write(os.environ, write_in_ci)
    with nullcontext(Path()) if recorded else _home(out, config) as home:
        return Verification(**vars(verify_entries(request, _context(home, progress))))


def _context(home: Path, progress: bool) -> PoolContext:
    if not progress:
        return PoolContext(home)
    return PoolContext(home, lambda text: print(text, file=sys.stderr), show_progress)  # noqa: T201 - asked for


class Comparison(RunComparison):
    """The result of comparing two runs; as a string, it is the first place at which they differ."""

    def __str__(self) -> str:
        return comparison_text(self)


def compare(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Comparison:
    """Compare two recorded runs; the result names the first place at which they differ.

    Args:
        a: the folder of a run.
        b: the folder of another run.

    Raises:
        RecordingError: one of them is not a run folder, or holds no recording.
        UsageError: one of them is not a path.
    """
    return Comparison(**vars(compare_runs(open_run(path_given("a", a)), open_run(path_given("b", b)))))


def assert_repeats(function: Callable[..., object], *args: object, runs: int = 2, **kwargs: object) -> None:
    """Call a function several times, and raise an error if not every call does the same with the same bits.

    The calls are compared in torch's operations, in what the function returned, and in what tensors, arrays and modules
    hold afterwards: those in its arguments, in the outer variables that it uses, and in the attributes of its object.
    Seed inside the function: what it draws and what it starts from have to repeat, too.

        def test_training_repeats():
            samebits.assert_repeats(train, steps=3)

    Args:
        function: the function to call.
        *args: its arguments.
        runs: how many times it is called.
        **kwargs: its keyword arguments.

    Raises:
        DivergenceError: an AssertionError that names the first operation or result at which two calls differ.
        UsageError: fewer than two runs, or nothing that could be compared in any of them.
        RecordingError: recording ended before the call did.

    Warns:
        UnseenWarning: other threads were started; their operations are not seen, only what they leave behind.
    """
    if not callable(function):
        raise UsageError(
            f"function must be something to call, got {function!r}", "pass the function itself, without ()"
        )
    if not isinstance(runs, int) or runs < 2:
        raise UsageError(f"runs must be at least 2, got {runs!r}")
    name = getattr(function, "__name__", repr(function))
    with TemporaryDirectory(prefix="samebits-") as home:
        calls = [recorded_call(Path(home, str(number)), function, args, kwargs) for number in range(runs)]
        unseen = unseen_in(name, calls)
        for number, call in enumerate(calls[1:], 2):
            words = difference(calls[0], call)
            if words:
                raise DivergenceError(f"calls 1 and {number} diverge: {words}", "samebits check says why")
        if not any(call.has_anything for call in calls):
            raise UsageError(nothing_in(name), unseen)
    if unseen:
        warnings.warn(unseen, UnseenWarning, stacklevel=2)
