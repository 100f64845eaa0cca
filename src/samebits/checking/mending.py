"""A patch for the confirmed causes, and its proof: the same check of the patched script, in copies with the patch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from samebits.base.ci import in_ci
from samebits.base.errors import PatchError, UsageError
from samebits.base.sites import Site, is_user_file, shown_path
from samebits.checking.plan import CheckRequest
from samebits.checking.pool import RunPool
from samebits.checking.verdict import Cause, CheckVerdict, Patch
from samebits.factors.base import GeneratorFactor
from samebits.factors.catalog import find, in_order
from samebits.factors.context import Setting
from samebits.fixing.cures import EditableFiles, MendRequest
from samebits.fixing.edits import EditableFile, NoCureError, editable_file, write_all
from samebits.fixing.patch import Draft, Unmended, patch
from samebits.runfolder.notes import Observed, read_notes

# How many patches are tried: the edit that fits a script best may not be enough, and one cause may hide another.
MOST_PROOFS = 3
Checked = tuple[CheckVerdict, "Mending"]
# Makes a check in a folder of its own, with some files replaced.
CheckAgain = Callable[[Path, CheckRequest, Mapping[str, bytes]], Checked]


@dataclass(frozen=True)
class Mending:
    """The findings of a check that a patch is made from.

    Attributes:
        wanted: the confirmed causes.
        left: causes that were not confirmed.
        files: the sources of the program, as the command found them.
    """

    wanted: tuple[MendRequest, ...] = ()
    left: tuple[Unmended, ...] = ()
    files: EditableFiles = field(default_factory=lambda: EditableFiles(_nothing))


def assert_may_fix(environ: Mapping[str, str], fix: bool, told: bool) -> None:
    """Raise UsageError where `CI` is set and changing files there was not asked for, or was asked for without a fix."""
    if told and not fix:
        raise UsageError("--fix-in-ci alone does nothing", "add --fix")
    if fix and in_ci(environ) and not told:
        raise UsageError(
            f"CI={environ['CI']} is set: files are then changed only on request, as nobody reviews what CI writes",
            "use --diff and apply it where you work; or add --fix-in-ci",
        )


def _nothing(path: str) -> EditableFile:
    raise NoCureError(f"{path} was not read")


def mending_of(pool: RunPool, verdict: CheckVerdict) -> Mending:
    """Return what can be mended of a check's causes, as long as its copy of the folder is there."""
    if verdict.kind != "different" or not verdict.causes:
        return Mending()
    facts = [run.facts for run in pool.runs]
    script = next((noted.script for noted in facts if noted.script), "")
    early = {name: sites for noted in reversed(facts) for name, sites in noted.early_seeds.items()}
    threads = _threads(run.path for run in pool.runs if not run.plan.settings)
    wanted = [
        MendRequest(
            cause.factor,
            _noted(cause),
            cause.called,
            find(cause.factor).fix_for(cause.site, cause.script or script, cause.called),
            cause.script or script,
            cause.others,
            cause.seeded_late if isinstance(find(cause.factor), GeneratorFactor) else None,
            early.get(cause.factor, ()),
            threads,
        )
        for cause in verdict.causes
        if cause.confirmed
    ]
    left = [Unmended(one.factor, one.site, "it is not confirmed") for one in verdict.causes if not one.confirmed]
    paths = sorted({path for noted in facts for path in noted.files})
    return Mending(tuple(wanted), tuple(left), _read_all(pool, wanted, paths))


def _noted(cause: Cause) -> Site | None:
    """Return the line of a cause, with its text as it was when it ran."""
    return None if cause.site is None else replace(cause.site, noted=cause.source or cause.site.noted)


def _threads(runs: Iterable[Path]) -> int:
    """Return how many threads torch computed with in runs left alone; 0 where that is not known."""
    notes = (note for path in runs for note in read_notes(path, Observed))
    values = [note.factors["cpu-threads"].value for note in notes if "cpu-threads" in note.factors]
    return next((int(value) for value in values if value.isdigit()), 0)


def _read_all(pool: RunPool, wanted: Sequence[MendRequest], paths: Sequence[str]) -> EditableFiles:
    """Read all files of the program now: the copy of the folder is removed with the check."""
    files = dict[str, EditableFile | NoCureError]()
    for cause in wanted:
        sites = [site for site in (cause.site, cause.late, *cause.others, *cause.early) if site is not None]
        for path in dict.fromkeys([*paths, cause.script, *(site.path for site in sites)]):
            if path and path not in files:
                try:
                    files[path] = file_of(pool, path)
                    files[os.path.realpath(path)] = files[path]
                except NoCureError as error:
                    files[path] = error

    def read(path: str) -> EditableFile:
        file = files.get(path, NoCureError(f"{path} was not read"))
        if isinstance(file, NoCureError):
            raise file
        return file

    return EditableFiles(read, paths)


def file_of(pool: RunPool, path: str) -> EditableFile:
    """Return a file of the user's as the command found it; raise NoCureError where it must not or cannot be edited."""
    real, folder = os.path.realpath(path), pool.workspace.folder
    if not path.startswith(os.sep):
        raise NoCureError(f"{path} is not a file")
    if not is_user_file(real):
        raise NoCureError(f"{shown_path(real)} is an installed package's")
    content = pool.workspace.found(real)
    if content is None:
        where = (
            "is not in the copies of the folder" if real.startswith(folder + os.sep) else "lies outside of the folder"
        )
        raise NoCureError(f"{shown_path(real)} {where}")
    return editable_file(real, content)


def patched(found: Checked, request: CheckRequest, home: Path, check_again: CheckAgain) -> CheckVerdict:
    """Return the verdict of a check with a patch, which is proved and applied where that was asked for."""
    verdict, mending = found
    draft = patch(mending.wanted, mending.files)
    is_asked = bool(request.patch) and verdict.kind == "different"
    if not is_asked:
        # A script that fails with the cause held still may fail with the patch, too.
        is_usable = verdict.remedy is None or not verdict.remedy.failure
        is_offered = draft.changes and verdict.unknown is None and is_usable
        return replace(verdict, patch=_record(draft, mending)) if is_offered else verdict
    if not draft.changes or verdict.unknown is not None or verdict.signal is not None:
        why = "a further cause is unknown" if verdict.unknown is not None else ""
        return replace(verdict, patch=replace(_record(draft, mending), why=why))
    own, draft, proof = _proved(draft, mending, request, home, check_again)
    if proof.signal is not None:
        return replace(verdict, patch=own, signal=proof.signal, cut_short=proof.cut_short, error=proof.error)
    if own.proven and request.patch == "fix":
        try:
            write_all(draft.changes)
        except PatchError as error:
            return replace(verdict, patch=own, error=error)
        own = replace(own, applied=True)
    return replace(verdict, patch=own)


def _proved(
    draft: Draft, mending: Mending, request: CheckRequest, home: Path, check_again: CheckAgain
) -> tuple[Patch, Draft, CheckVerdict]:
    """Return the patch with which the script repeats, or else the last one tried, its draft, and the verdict on it."""
    attempt = 0
    for number in range(1, MOST_PROOFS + 1):
        pins = in_order({one.factor for one in draft.cannot if not find(one.factor).by_folder})
        vary = tuple(name for name in request.vary if name not in pins)
        own_pins = {**{name: Setting("pinned") for name in pins}, **request.pins}
        asked = replace(request, patch="", pins=own_pins, vary=vary)
        proof, then = check_again(home / f"patched-{number}", asked, {one.path: one.after for one in draft.changes})
        record = replace(
            _record(draft, mending),
            pins=tuple(pins),
            proven=proof.kind == "same",
            is_complete=proof.is_complete,
            agree=len(proof.whole),
            diverged=proof.divergent,
            why=proof.error.message if proof.error else "",
        )
        if record.proven or proof.signal is not None:
            break
        further = patch(then.wanted, then.files)
        again = {one.factor for one in further.mends}.intersection(
            one.factor for one in draft.mends if find(one.factor).fixed_once
        )
        if further.changes and not again:
            draft = _composed(draft, further)
            continue
        attempt += 1
        alternative = patch(mending.wanted, mending.files, attempt)
        if alternative.changes == draft.changes:
            break
        draft = alternative
    return record, draft, proof


def _record(draft: Draft, mending: Mending) -> Patch:
    return Patch(
        diff=draft.diff,
        files=tuple(one.path for one in draft.changes),
        lines=draft.lines,
        mends=draft.mends,
        cannot=(*draft.cannot, *mending.left),
    )


def _composed(first: Draft, then: Draft) -> Draft:
    """Return a draft that does what two drafts do, one after the other."""
    changes = {change.path: change for change in first.changes}
    for change in then.changes:
        before = changes[change.path].before if change.path in changes else change.before
        changes[change.path] = replace(change, before=before)
    return Draft(tuple(changes.values()), (*first.mends, *then.mends), (*first.cannot, *then.cannot))
