"""`samebits lock`: checks a command, runs it, and writes down the bits that it gave."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from samebits.base.ci import in_ci
from samebits.base.errors import LockfileError, SamebitsError, UsageError
from samebits.checking.experiments import check_in
from samebits.checking.plan import CheckRequest
from samebits.checking.pool import PoolContext
from samebits.checking.verdict import CheckVerdict as CheckVerdict
from samebits.comparison.locate import first_divergence
from samebits.launch.command import Command, parse_command
from samebits.locking.code import code_of
from samebits.locking.comparing import compare_with_lock
from samebits.locking.digests import locked_of
from samebits.locking.entries import Repeats, RunEntry
from samebits.locking.files import digest_of_path
from samebits.locking.lockfile import Lockfile, update
from samebits.locking.running import FinishedRun, RunOptions, edited_since, run_entry
from samebits.locking.verdict import EntryLocked
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import Variable

NO_ENVIRONMENT = "the run did not say what it computed with"
_CONTROLS = ("control", "control again")


@dataclass(frozen=True)
class LockRequest(RunOptions):
    """The command to lock, in words, and the options of `samebits.lock`, where they are described."""

    words: tuple[str, ...]
    lockfile: Path
    name: str = ""
    pins: tuple[str, ...] = ()
    seed: int = 0
    max_steps: int | None = None
    data: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    quick: bool = False
    no_check: bool = False
    replace: bool = False

    def __post_init__(self) -> None:
        if self.quick and self.no_check:
            raise UsageError("a quick check and none at all contradict one another", "leave one of them out")

    @property
    def repeats(self) -> Repeats:
        return "unchecked" if self.no_check else "looked" if self.quick else "checked"


def need_to_write(environ: Mapping[str, str], told: bool) -> None:
    """Raise UsageError where `CI` is set and writing lockfiles was not asked for."""
    if in_ci(environ) and not told:
        raise UsageError(
            f"CI={environ['CI']} is set: a lockfile is then written only on request, as nobody reviews what CI writes",
            "lock where you work and commit the file; or add --write-in-ci",
        )


def lock(request: LockRequest, context: PoolContext) -> EntryLocked:
    """Check a command, run it, and write down what it gave; an unwritable lockfile is an error before any run."""
    command = parse_command(request.words)
    name = request.name or _name_of(command)
    entry = RunEntry(
        request.words,
        request.seed,
        tuple(dict.fromkeys(request.pins)),
        request.max_steps or 0,
        {path: digest_of_path(Path(path)) for path in request.data},
        request.artifacts,
    )
    # Fail before anything is run, if the lockfile could not be written afterwards.
    if not request.lockfile.parent.is_dir():
        where = f"there is no folder {request.lockfile.parent} for the lockfile"
        raise LockfileError(where, "make it, or choose another one")
    before = Lockfile.load(request.lockfile) if request.lockfile.exists() else Lockfile()
    _require_same_settings(before, name, entry, request.replace)
    locking = EntryLocked(name, shlex.join(entry.command), request.lockfile, "undecided")
    locking = lock_entry(locking, entry, request.runs_of(entry), request.repeats, context)
    if locking.locked is None:
        return locking

    def change(now: Lockfile) -> Lockfile:
        # Another process may have written meanwhile.
        _require_same_settings(now, name, entry, request.replace)
        return with_locked_entry(now, locking, entry, request.replace)

    update(request.lockfile, change)
    old_entry = before.runs.get(name)
    home = None if old_entry is None else before.matching_name(locking.environment, old_entry.on)
    if old_entry is None or home is None or locking.folder is None:
        return locking
    with suppress(SamebitsError):
        held = compare_with_lock(old_entry.on[home], RunFolder(locking.folder).recordings(), True, old_entry.max_steps)
        locking = replace(locking, changed=held.divergence)
    return replace(locking, is_new=False)


def lock_entry(
    found: EntryLocked, entry: RunEntry, asked: CheckRequest, repeats: Repeats, context: PoolContext
) -> EntryLocked:
    """Return what is to be locked for an entry in this environment; nothing is written yet."""
    ran, began = None, time.time()
    if repeats != "unchecked":
        asked_first = replace(asked, quick=repeats == "looked")
        check = check_in(context, asked_first)
        found = replace(found, check=check, not_observed=check.not_observed)
        if check.kind != "same":
            why = f"whether the command repeats cannot be decided: {'; '.join(check.not_observed)}"
            undecided = LockfileError(why, "--no-check locks it anyway") if check.kind == "undecided" else None
            return replace(found, kind=check.kind, error=check.error or undecided)
        # Runs of the check that went as far as is locked, and in which only the user's pins were treated.
        alone = [run for run in check.whole if run.role in _CONTROLS]
        if repeats == "checked" and alone and not entry.artifacts:
            ran = FinishedRun(RunFolder(alone[-1].folder), entry.max_steps)
    if ran is None:
        ran = run_entry(asked, entry, context, "lock")
    trouble = ran.trouble
    if trouble is None and entry.artifacts and repeats != "unchecked":
        trouble = _artifact_error(ran, run_entry(asked, entry, context, "lock again"))
    trouble = trouble or _unusable(ran, entry, found.check) or edited_since(began, ran, asked)
    found = replace(found, environment=ran.environment, folder=ran.folder.path, not_observed=ran.not_observed)
    if trouble is not None:
        return replace(found, error=trouble)
    code = code_of(ran.code, Path.cwd())
    # Lock the variables with the value that they have here: others were set by the script, its launcher, or samebits.
    outside = (name for name in ran.variables if Variable.of(name, os.environ.get(name)).digest == ran.variables[name])
    locked = replace(
        locked_of(ran.recordings, entry.max_steps),
        repeats=repeats,
        artifacts={path: digest for path, digest in ran.artifacts.items() if digest is not None},
        commit=code.commit,
        uncommitted=code.uncommitted,
        code=code.files,
        variables={name: ran.variables[name] for name in outside},
    )
    uncommitted = ", ".join(code.uncommitted)
    notes = (f"not as committed: {uncommitted}; commit it together with the lockfile",) if uncommitted else ()
    return replace(found, kind="locked", locked=locked, home=ran.environment.name, notes=notes)


def _artifact_error(ran: FinishedRun, again: FinishedRun) -> SamebitsError | None:
    """Return the error for an artifact that differs between two runs, and so cannot be locked; None where none does."""
    if again.trouble is not None:
        return again.trouble
    moving = [path for path, digest in ran.artifacts.items() if again.artifacts.get(path) != digest]
    if not moving:
        return None
    return LockfileError(
        f"{moving[0]} differs in every run, so it cannot be locked",
        "does it hold a time, or a path of its own? Drop that --artifact: the tensors in it are locked anyway",
    )


def _unusable(ran: FinishedRun, entry: RunEntry, check: CheckVerdict | None) -> SamebitsError | None:
    """Return the error for a run that cannot be locked, or differs from those of the check, as far as these went."""
    if not ran.environment.torch:
        return LockfileError(NO_ENVIRONMENT, "is it one that samebits could enter?")
    lost = [path for path in entry.artifacts if ran.artifacts.get(path) is None]
    if lost:
        return LockfileError(
            f"the run did not write {lost[0]}",
            "give --artifact the path of a file that it writes, {run} included; a file that was there before does not "
            "count, and * and ? are no wildcards",
        )
    if not ran.is_whole:
        return LockfileError("the run did not finish by itself, so there is no end to lock", "what ended it?")
    for whole in check.whole[:1] if check is not None else ():
        place = first_divergence(RunFolder(whole.folder).recordings(), ran.recordings, whole.steps - 1)
        if place is not None:
            why = "the check found the same bits in every run, and the run after it diverges from them"
            return LockfileError(f"{why} at step {place.step}", "check with more runs: samebits check --runs 6")
    return None


# ---- names and what is there already ---------------------------------------------------------------------------------


def _name_of(command: Command) -> str:
    """Return the name of the script, or of the module, or of the program."""
    if command.script is not None:
        path = Path(command.script)
        return path.parent.name if path.name == "__main__.py" else path.stem
    words = command.typed
    if "-m" in words[:-1]:
        return words[words.index("-m") + 1]
    scripts = [word for word in words if word.endswith(".py")]
    return Path(scripts[0] if scripts else words[0]).stem


def _require_same_settings(content: Lockfile, name: str, entry: RunEntry, is_replaced: bool) -> None:
    old_entry = content.runs.get(name)
    if old_entry is None or is_replaced:
        return
    for what, before, now in (
        ("the command", shlex.join(old_entry.command), shlex.join(entry.command)),
        ("--seed", old_entry.seed, entry.seed),
        ("pins", ", ".join(old_entry.pins) or "none", ", ".join(entry.pins) or "none"),
        ("--max-steps", old_entry.max_steps or "none", entry.max_steps or "none"),
        ("artifacts", ", ".join(old_entry.artifacts) or "none", ", ".join(entry.artifacts) or "none"),
    ):
        if before != now:
            raise LockfileError(
                f"{name!r} is locked already, with another value of {what}: {before}, not {now}",
                "choose another --name, or replace the old entry with --replace",
            )


def with_locked_entry(now: Lockfile, found: EntryLocked, entry: RunEntry, is_replaced: bool = False) -> Lockfile:
    """Return the lockfile with what was locked for an entry; digests that were made with other data are dropped."""
    assert found.locked is not None
    old_entry = None if is_replaced else now.runs.get(found.name)
    others = old_entry.on if old_entry is not None and _by_place(old_entry.data) == _by_place(entry.data) else {}
    home = now.matching_name(found.environment, others)
    old, new = None if home is None else others[home], found.locked
    # Same bits, same code: that another commit is checked out must not change the file.
    if old is not None and old == replace(new, samebits=old.samebits, commit=old.commit, uncommitted=old.uncommitted):
        return now
    return now.with_run(found.name, replace(entry, on=others), found.environment, new)


def _by_place(data: Mapping[str, str]) -> dict[str, str]:
    """Return digests of data by normalized paths: `data` and `./data/` are the same."""
    return {os.path.normpath(path): digest for path, digest in data.items()}
