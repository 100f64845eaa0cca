"""The commands from Python: a check and its verdict, locked bits, two runs compared, a function that has to repeat."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from samebits.agent.session import path_given
from samebits.base.errors import DivergenceError, StorageError, UnseenWarning, UsageError
from samebits.checking.experiments import check_in
from samebits.checking.mending import need_to_fix
from samebits.checking.plan import check_request
from samebits.checking.pool import Around
from samebits.checking.verdict import CheckVerdict
from samebits.comparison.runs import RunComparison, compare_runs
from samebits.launch.config import Config, read_config
from samebits.locking.lockfile import NAME as LOCKFILE
from samebits.locking.making import LockRequest, need_to_write
from samebits.locking.making import lock as make_lock
from samebits.locking.verdict import EntriesVerified, EntryLocked
from samebits.locking.verifying import VerifyRequest
from samebits.locking.verifying import verify as verify_entries
from samebits.report.answers import document_of, dumped, read_verdict
from samebits.report.diffs import comparison_text
from samebits.report.locks import lock_told, verify_told
from samebits.report.progress import progress as show_progress
from samebits.report.text import check_told
from samebits.runfolder.folder import HOME, new_home, newest_in, open_run, write_answer
from samebits.testing.repeats import difference, nothing_in, recorded_call, unseen_in
from samebits.workspace.place import Isolation


class Verdict(CheckVerdict):
    """What a check found, as data; and as a text what `samebits check` prints."""

    def __str__(self) -> str:
        return check_told(self).text


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
    strict: bool = False,
    diff: bool = False,
    fix: bool = False,
    fix_in_ci: bool = False,
    out: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Verdict:
    """Does a command repeat bit for bit? What `samebits check` does, in the current folder; nothing is printed.

        verdict = samebits.check("train.py --lr 3", max_steps=50)
        if verdict.kind == "different":
            print(verdict)                        # what the command line prints
            print(verdict.causes[0].site)         # the line that lets the first cause in

    What is left out has the default of `[tool.samebits]` in pyproject.toml, else that of `samebits check`. Ctrl-C and
    SIGTERM end every run, so it is called from the main thread, to which Python hands signals.

    Args:
        command: what to run, as words or as one line for a shell to split; `train.py` is short for `python train.py`.
        pins: factors held still in every run, each `NAME` or `NAME=VALUE`.
        vary: factors to vary besides those varied by default.
        seed: root of all pinned streams.
        runs: runs before anything is judged: two controls, the rest varied.
        max_runs: the budget: at most this many runs in total.
        jobs: how many runs at a time; `"auto"`, as many as cores and memory allow.
        max_steps: check only this many first steps.
        timeout: seconds after which a run is ended.
        level: `op` names the operation, too; otherwise `step`.
        all_origins: with `level="op"`, name further operations, too.
        quick: look at the first seconds of training only.
        isolation: `copy` begins every run in a copy of the current folder, `none` lets all share it.
        share: paths that the copies show as they are.
        strict: runs that agree in what was trained, and differ in what else happened, are `different`, too.
        diff: prove a patch for the causes, by a check of the patched script; it is the verdict's `patch`.
        fix: apply that patch to the files, too, if the patched script repeats.
        fix_in_ci: apply it although `CI` is set.
        out: an empty folder for the runs; without it, a new one under `.samebits/`.
        progress: show on stderr how far the runs are, where that is a terminal, and what else is worth knowing.

    Returns:
        The verdict. Where it is `undecided`, its `error` says why, if anything failed.

    Raises:
        UsageError: the arguments make no sense together, this is not the main thread, or `fix` is asked for where `CI`
            is set.
        CommandNotFoundError: there is no such script or program.
        StorageError: the folder for the runs cannot be written.
    """
    _need_the_main_thread("check")
    if fix:
        need_to_fix(os.environ, fix_in_ci)
    config, words = read_config(), {"pins": _words("pins", pins), "vary": _words("vary", vary)}
    request = check_request(
        _command(command), config, **words, seed=seed, runs=runs, max_runs=max_runs, jobs=jobs, max_steps=max_steps,
        timeout=timeout, level=level, all_origins=all_origins, quick=quick, isolation=isolation,
        share=_words("share", share), strict=strict, patch="fix" if fix else "diff" if diff else "",
    )  # fmt: skip
    home = _home(out, config)
    found = check_in(_around(home, progress), request)
    _keep(home, found)
    return Verdict(**vars(found))


def _keep(home: Path, found: CheckVerdict) -> None:
    """Keep a verdict beside its runs; where that fails, it is there all the same."""
    try:
        write_answer(home, dumped(document_of("check", found)))
    except StorageError as error:
        warnings.warn(f"{error.message}, so there will be no page of it", stacklevel=3)


def _need_the_main_thread(name: str) -> None:
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            f"{name}() was called from a thread", "call it from the main one: a signal has to end every run"
        )


def _home(out: str | os.PathLike[str] | None, config: Config) -> Path:
    return new_home(None if out is None else path_given("out", out), config.keep)


def _command(command: str | Sequence[str]) -> list[str]:
    return shlex.split(command) if isinstance(command, str) else [*command]


def _words(name: str, words: Sequence[str]) -> tuple[str, ...]:
    if isinstance(words, str):
        raise UsageError(f"{name} takes a list of words, got the string {words!r}", f"write [{words!r}]")
    return tuple(words)


def verdict(folder: str | os.PathLike[str] = HOME) -> Verdict:
    """The verdict of an earlier check.

        samebits.verdict(".samebits/20260131-120000-4711").kind

    Args:
        folder: of a check; `.samebits` stands for the newest check, measurement or run in it.

    Raises:
        RecordingError: it holds no verdict, or one made by a newer samebits.
    """
    return Verdict(**vars(read_verdict(newest_in(path_given("folder", folder)))))


class Locking(EntryLocked):
    """What was locked, as data; and as a text what `samebits lock` prints."""

    def __str__(self) -> str:
        return lock_told(self).text


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
    replace: bool = False,
    timeout: float | None = None,
    lockfile: str | os.PathLike[str] = LOCKFILE,
    write_in_ci: bool = False,
    out: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Locking:
    """Write the bits that a command gives into a lockfile: what `samebits lock` does; nothing is printed.

        samebits.lock("train.py --lr 3", max_steps=50, pins=["cpu-threads=2"])

    Args:
        command: what to run, as in `samebits.check`.
        name: of the entry; without it, the name of the script.
        pins: factors held still, now and whenever it is verified, each `NAME` or `NAME=VALUE`.
        seed: root of all pinned streams.
        max_steps: lock only this many first steps.
        data: files and folders that have to stay as they are.
        artifacts: files that the command makes, byte for byte; `{run}` is a folder of its own.
        quick: look at the first seconds of training only, to see whether it repeats.
        no_check: do not look at all; that is written down.
        isolation: `copy` begins every run in a copy of the current folder, `none` lets all share it.
        share: paths that the copies show as they are.
        replace: discard what is locked under that name, on every machine.
        timeout: seconds after which a run is ended.
        lockfile: path of the file.
        write_in_ci: write although `CI` is set.
        out: an empty folder for the runs; without it, a new one under `.samebits/`.
        progress: show on stderr how far the runs are, where that is a terminal.

    Returns:
        What was locked. Where the command does not repeat, `kind` is `different`, and nothing was written.

    Raises:
        UsageError: the arguments make no sense together, `CI` is set, or this is not the main thread.
        LockfileError: the lockfile cannot be used, or the name stands for another command.
        CommandNotFoundError: there is no such script or program.
        StorageError: the lockfile, or the folder for the runs, cannot be written.
    """
    _need_the_main_thread("lock")
    need_to_write(os.environ, write_in_ci)
    config = read_config()
    options: dict[str, Any] = {"pins": _words("pins", pins), "seed": seed, "max_steps": max_steps, "timeout": timeout}
    options |= {"isolation": isolation, "share": _words("share", share)}
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
    home = _home(out, config)
    found = make_lock(request, _around(home, progress))
    if found.check is not None:
        _keep(home, found.check)
    return Locking(**vars(found))


class Verification(EntriesVerified):
    """What verifying found, as data; and as a text what `samebits verify` prints."""

    def __str__(self) -> str:
        return verify_told(self).text


def verify(
    *names: str,
    recording: str | os.PathLike[str] | None = None,
    update: bool = False,
    update_new_only: bool = False,
    timeout: float | None = None,
    isolation: Isolation | None = None,
    share: Sequence[str] = (),
    lockfile: str | os.PathLike[str] = LOCKFILE,
    write_in_ci: bool = False,
    out: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Verification:
    """Do locked commands give the bits that are locked? What `samebits verify` does; nothing is printed.

        found = samebits.verify("train")
        if found.kind == "different":
            print(found)                                   # what the command line prints
            print(found.entries[0].divergences[0].step)    # the first step that is seen to differ

    Args:
        *names: of entries; without one, all of them.
        recording: a run folder: nothing is run, and what it holds is held against its entry.
        update: write the bits of this run where they differ or are new.
        update_new_only: write only what was never locked for this environment.
        timeout: seconds after which a run is ended.
        isolation: `copy` begins every run in a copy of the current folder, `none` lets all share it.
        share: paths that the copies show as they are.
        lockfile: path of the file.
        write_in_ci: write although `CI` is set.
        out: an empty folder for the runs; without it, a new one under `.samebits/`.
        progress: show on stderr how far the runs are, where that is a terminal.

    Returns:
        What was found of each entry: `same`, `different`, `unknown` where the environment was never locked, or
        `undecided`, and then its `error` says why.

    Raises:
        UsageError: the arguments make no sense together, `CI` is set, or this is not the main thread.
        LockfileError: the lockfile cannot be used, or has no such entry.
        RecordingError: the recording cannot be used, or is of another command.
        StorageError: the lockfile, or the folder for the runs, cannot be written.
    """
    _need_the_main_thread("verify")
    config = read_config()
    recorded = None if recording is None else open_run(path_given("recording", recording))
    options: dict[str, Any] = {"timeout": timeout, "isolation": isolation, "share": _words("share", share)}
    request = VerifyRequest(
        path_given("lockfile", lockfile), names, recorded, update, update_new_only, **config.filling(options)
    )
    if request.writes:
        need_to_write(os.environ, write_in_ci)
    home = Path() if recorded else _home(out, config)
    return Verification(**vars(verify_entries(request, _around(home, progress))))


def _around(home: Path, progress: bool) -> Around:
    return Around(home, lambda text: print(text, file=sys.stderr), show_progress) if progress else Around(home)  # noqa: T201


class Comparison(RunComparison):
    """What two runs have in common, and as a text which is the first place at which they differ."""

    def __str__(self) -> str:
        return comparison_text(self)


def compare(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> Comparison:
    """The first place at which two recorded runs differ.

    Args:
        a: a run folder.
        b: another.

    Raises:
        RecordingError: one of them is not a run folder, or holds no recording.
        UsageError: one of them is not a path.
    """
    return Comparison(**vars(compare_runs(open_run(path_given("a", a)), open_run(path_given("b", b)))))


def assert_repeats(function: Callable[..., object], *args: object, runs: int = 2, **kwargs: object) -> None:
    """Call a function several times and raise if it did not do the same with the same bits each time.

    Compared are torch's operations, what the function returned, and what tensors, arrays and modules hold afterwards
    that are among its arguments, its own variables from outside, or the attributes of its object. Seed inside the
    function: what it draws and what it starts from are part of what has to repeat.

        def test_training_repeats():
            samebits.assert_repeats(train, steps=3)

    Args:
        function: what to call.
        *args: passed on.
        runs: how many calls.
        **kwargs: passed on.

    Raises:
        DivergenceError: an AssertionError that names the first operation or result at which two calls differ.
        UsageError: fewer than two runs, or nothing in any that could be compared.
        RecordingError: recording ended before the call did.

    Warns:
        UnseenWarning: other threads were started: their operations are not seen, only what they leave behind.
    """
    if not callable(function):
        raise UsageError(
            f"function must be something to call, got {function!r}", "pass the function itself, without ()"
        )
    if runs < 2:
        raise UsageError(f"runs must be at least 2, got {runs}")
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
