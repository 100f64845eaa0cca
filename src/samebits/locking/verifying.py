"""`samebits verify`: runs locked commands again, or takes existing recordings, and compares them with the lockfile."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from samebits.base.errors import (
    CommandNotFoundError,
    InterruptError,
    LockfileError,
    RecordingError,
    SamebitsError,
    ScriptFailedError,
    ScriptHangsError,
    UsageError,
)
from samebits.base.version import __version__
from samebits.checking.plan import CheckRequest
from samebits.checking.pool import PoolContext
from samebits.comparison.locate import first_divergence
from samebits.factors.pinning import parsed_settings
from samebits.launch.supervised import unentered
from samebits.locking.code import changes_since, code_of
from samebits.locking.comparing import LockComparison, compare_with_lock, differences, differing_files, nearest
from samebits.locking.entries import Locked, RunEntry
from samebits.locking.files import digest_at, digest_of_path
from samebits.locking.lockfile import Lockfile, update
from samebits.locking.making import NO_ENVIRONMENT, lock_entry, with_locked_entry
from samebits.locking.running import FinishedRun, RunOptions, edited_since, folder_name, recorded_artifacts, run_entry
from samebits.locking.verdict import EntriesVerified, EntryLocked, LockDivergence, Verified, VerifyKind
from samebits.runfolder.folder import Manifest, RunFolder

_NOT_WRITTEN = "not written: the command does not repeat, so it is not locked"


@dataclass(frozen=True)
class VerifyRequest(RunOptions):
    """The entries to verify, and the options of `samebits.verify`, where they are described."""

    lockfile: Path
    names: tuple[str, ...] = ()
    recording: RunFolder | None = None
    update: bool = False
    update_new_only: bool = False

    def __post_init__(self) -> None:
        if self.recording is not None and self.writes:
            raise UsageError(
                "--recording names a finished one, and only a run made here can be locked",
                "drop --recording or --update",
            )

    @property
    def writes(self) -> bool:
        """Whether the lockfile may be written."""
        return self.update or self.update_new_only


def verify(request: VerifyRequest, context: PoolContext) -> EntriesVerified:
    """Compare every entry that was asked for with a run of its command, or with a recording."""
    content = Lockfile.load(request.lockfile)
    if not content.runs:
        raise LockfileError(f"no run is locked in {request.lockfile}", "first: samebits lock train.py")
    folder = request.recording
    if folder is not None:
        name = _entry_for(content, request.names, folder)
        entry = content.entry(name)
        _need_the_same_run(name, entry, folder.manifest(), folder.path)
        ran = FinishedRun(folder, entry.max_steps, recorded_artifacts(folder, entry.artifacts))
        return EntriesVerified(request.lockfile, (_judged(content, name, entry, ran),))
    entries = {name: content.entry(name) for name in request.names or sorted(content.runs)}
    results = []
    for name, entry in entries.items():
        began = time.monotonic()
        verified = _verified(content, name, entry, request, context)
        results.append(replace(verified, wall_seconds=round(time.monotonic() - began, 3)))
    return EntriesVerified(request.lockfile, tuple(results))


# ---- one entry, run --------------------------------------------------------------------------------------------------


def _verified(content: Lockfile, name: str, entry: RunEntry, request: VerifyRequest, context: PoolContext) -> Verified:
    result = Verified(name, shlex.join(entry.command), "undecided")
    try:
        asked, began = request.runs_of(entry), time.time()
        ran = run_entry(asked, entry, context, "verify", name)
        if (edited := edited_since(began, ran, asked)) is not None:
            raise edited
        result = _judged(content, name, entry, ran)
        # An update checks that the command repeats before it writes, so no second run is needed here.
        is_checked = request.update and result.locked is not None and result.locked.repeats != "unchecked"
        if any(place.what != "data" for place in result.divergences) and result.kind == "different" and not is_checked:
            # A second run shows whether the changed bits repeat, or the command does not repeat at all.
            again = run_entry(asked, entry, context, "verify again", name)
            if again.trouble is None and again.recordings:
                is_same = first_divergence(ran.recordings, again.recordings) is None
                result = replace(result, is_steady=is_same and again.artifacts == ran.artifacts)
        if result.is_steady is False:
            return replace(result, notes=(*result.notes, *((_NOT_WRITTEN,) if request.update else ())))
        if (result.kind == "unknown" and request.writes) or (result.kind == "different" and request.update):
            return _updated(result, entry, asked, request.lockfile, context)
        return result
    except SamebitsError as error:
        if isinstance(error, InterruptError):
            raise
        if isinstance(error, CommandNotFoundError) and request.lockfile.resolve().parent != Path.cwd():
            error = CommandNotFoundError(error.message, "run it in the folder that it was locked in")
        return replace(result, kind="undecided", error=error)


def _judged(content: Lockfile, name: str, entry: RunEntry, ran: FinishedRun) -> Verified:
    """Judge a run of an entry; nothing is run here."""
    outside = [path for path in entry.data if not Path(path).resolve().is_relative_to(Path.cwd())]
    result = Verified(
        name,
        shlex.join(entry.command),
        "undecided",
        ran.environment,
        folder=ran.folder.path,
        notes=tuple(f"{path} was read, which lies outside of this folder" for path in outside),
        not_observed=ran.not_observed,
    )
    # If the script failed, what it did before can still be judged.
    is_judged = bool(ran.recordings and ran.environment.torch)
    if not is_judged or not isinstance(ran.trouble, (ScriptFailedError, ScriptHangsError, type(None))):
        unknown = LockfileError(NO_ENVIRONMENT, "was it recorded by an older samebits? Run it again")
        return replace(result, error=ran.trouble or unknown)
    data = differing_files(entry.data, {path: digest_at(Path(path)) for path in entry.data}, "data")
    own_home = content.matching_name(ran.environment, entry.on)
    if own_home is None and (ran.trouble is not None or data or not entry.on):
        # The environment was never locked, and there is nothing to compare the run with.
        kind: VerifyKind = "undecided" if ran.trouble is not None else "different" if data else "unknown"
        return replace(result, kind=kind, error=ran.trouble, divergences=() if ran.trouble is not None else data)
    home = own_home or nearest({home: content.environments[home] for home in entry.on}, ran.environment)
    locked, code = entry.on[home], code_of(ran.code, Path.cwd())
    # A variable that the run did not ask for counts as unchanged: the run may have ended before it asked.
    changed_variables = [name for name, digest in locked.variables.items() if ran.variables.get(name, digest) != digest]
    result = replace(
        result,
        home=home,
        locked=locked,
        code=changes_since(locked.code, code.files, Path.cwd()),
        variables=tuple(changed_variables),
        differences=differences(content.environments[home], ran.environment),
    )
    if own_home is None:
        return _unknown(result, entry, ran)
    try:
        held = compare_with_lock(locked, ran.recordings, ran.is_whole, entry.max_steps)
    except SamebitsError as error:
        return replace(result, error=error)
    return _decided(result, held, data, locked, ran)


def _decided(
    found: Verified, held: LockComparison, data: Sequence[LockDivergence], locked: Locked, ran: FinishedRun
) -> Verified:
    artifacts = differing_files(locked.artifacts, ran.artifacts, "artifact") if ran.is_whole else ()
    bits = () if held.divergence is None else (held.divergence,)
    found = replace(found, divergences=(*data, *bits, *artifacts), steps=held.agreed, streams=locked.streams)
    if data or ((bits or artifacts) and locked.samebits == __version__):
        return replace(found, kind="different")
    if bits or artifacts:
        why = f"the recording differs from the lock, but that was made by samebits {locked.samebits}, and this is "
        advice = f"verify with samebits {locked.samebits}, or lock again with this one"
        return replace(found, error=LockfileError(f"{why}{__version__}, which may record differently", advice))
    if ran.trouble is not None or not held.reaches_end:
        agreed = "it took no step" if not held.agreed else f"its {held.agreed} steps agree"
        why = f"the run ended early: {agreed}, and {locked.steps} are locked"
        return replace(found, error=ran.trouble or RecordingError(why, "let it run to its end, or see what ended it"))
    elsewhere = unentered(ran.folder)
    if elsewhere:
        hint = "what it did is not known; give the command that samebits can enter"
        return replace(found, error=LockfileError(f"all that was recorded agrees; but {elsewhere[0]}", hint))
    unseen = [path for path in locked.artifacts if path not in ran.artifacts]
    notes = tuple(f"{path} was not compared: the recording does not hold it" for path in unseen)
    return replace(found, kind="same", notes=(*found.notes, *notes))


def _unknown(found: Verified, entry: RunEntry, ran: FinishedRun) -> Verified:
    """Judge a run in an environment that was never locked: whether it has the bits of the nearest, or of another."""
    alike: list[str] = []
    divergences: tuple[LockDivergence, ...] = ()
    for name, locked in entry.on.items():
        with suppress(SamebitsError):
            held = compare_with_lock(locked, ran.recordings, ran.is_whole, entry.max_steps)
            if held.divergence is not None:
                divergences = (held.divergence,) if name == found.home else divergences
            elif held.reaches_end and not differing_files(locked.artifacts, ran.artifacts, "artifact"):
                alike.append(name)
    agrees_with = found.home if found.home in alike else next(iter(alike), "")
    return replace(found, kind="unknown", divergences=divergences, agrees_with=agrees_with)


# ---- updating --------------------------------------------------------------------------------------------------------


def _updated(found: Verified, entry: RunEntry, asked: CheckRequest, lockfile: Path, context: PoolContext) -> Verified:
    """Lock the entry again in this environment, with the same kind of check for repetition as before."""
    new_entry = replace(entry, data={path: digest_of_path(Path(path)) for path in entry.data})
    home = context.home / f"{folder_name(found.name)}-update"
    home.mkdir(parents=True, exist_ok=True)
    again = EntryLocked(found.name, found.command, lockfile, "undecided")
    repeats = "checked" if found.locked is None else found.locked.repeats
    new = lock_entry(again, new_entry, asked, repeats, replace(context, home=home))
    if new.locked is None:
        note = _NOT_WRITTEN if new.error is None else f"not written: {new.error.message}"
        is_steady = False if new.kind == "different" else found.is_steady
        return replace(found, is_steady=is_steady, notes=(*found.notes, note))

    def change(now: Lockfile) -> Lockfile:
        if replace(now.entry(found.name), on={}, data={}) != replace(entry, on={}, data={}):
            raise LockfileError(f"{found.name!r} was locked anew by another process meanwhile", "verify again")
        return with_locked_entry(now, new, new_entry)

    update(lockfile, change)
    written: Literal["added", "changed"] = "added" if found.kind == "unknown" else "changed"
    return replace(found, written=written, kind="same", locked=new.locked, notes=(*found.notes, *new.notes))


# ---- a recording that is there already -------------------------------------------------------------------------------


def _entry_for(content: Lockfile, names: Sequence[str], folder: RunFolder) -> str:
    """Return the entry that a recording is compared with: the one that was named, else the one of its command."""
    if len(names) > 1:
        raise UsageError(f"--recording is held against one entry, got {len(names)}", "name one of them")
    if names:
        content.entry(names[0])
        return names[0]
    typed = tuple(folder.manifest().get("typed", ()))
    matching = [name for name, entry in sorted(content.runs.items()) if entry.command == typed]
    if len(matching) != 1:
        how = "no entry is" if not matching else f"{', '.join(matching)} are"
        raise LockfileError(f"{how} of the command {shlex.join(typed)!r}, which {folder.path} is a run of", "name one")
    return matching[0]


def _need_the_same_run(name: str, entry: RunEntry, manifest: Manifest, path: Path) -> None:
    """Raise RecordingError where a run was started differently from the locked one: then other bits are no failure."""
    typed = manifest.get("typed", manifest.get("command", []))
    if typed and tuple(typed) != entry.command:
        raise RecordingError(
            f"{path} is a run of {shlex.join(typed)!r}, and {name!r} is locked for {shlex.join(entry.command)!r}",
            "name the entry that it is a run of",
        )
    plan = manifest.get("plan", {})
    treated = {name: (one.get("mode", "natural"), one.get("value")) for name, one in plan.get("settings", {}).items()}
    treatments = {name: how for name, how in treated.items() if how[0] != "natural"}
    wanted = {name: (setting.mode, setting.value) for name, setting in parsed_settings(entry.pins).items()}
    if treatments != wanted or (wanted and plan.get("seed", 0) != entry.seed):
        pins = " ".join(f"--pin {word}" for word in entry.pins) or "--no-pin"
        seed = f" --seed {entry.seed}" if entry.seed else ""
        raise RecordingError(
            f"{path} was made with other pins than {name!r} was locked with",
            f"record it so: samebits run {pins}{seed} --out RUN {shlex.join(entry.command)}",
        )
