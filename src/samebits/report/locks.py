"""Words for the answers of `samebits lock` and `samebits verify`."""

from __future__ import annotations

from samebits.base.sites import shown_path
from samebits.checking.verdict import CheckVerdict
from samebits.locking.code import CodeChange
from samebits.locking.entries import Locked
from samebits.locking.verdict import EntriesVerified, EntryLocked, EnvironmentDifference, LockDivergence, Verified
from samebits.report.causes import pins_given
from samebits.report.places import stream_list, stream_words
from samebits.report.rows import AnswerReport, Rows, counted, unseen_rows
from samebits.report.text import check_report
from samebits.runfolder.environment import Environment

_REPEATS = {
    "checked": "after a check",
    "looked": "after a quick check",
    "unchecked": "without a check: whether it repeats is not known",
}
_STEADY = {
    True: "a second run gave the same bits as this one: it repeats, but with other bits than those locked",
    False: "a second run gave different bits again: it does not repeat (samebits check says why)",
}


def verify_report(found: EntriesVerified) -> AnswerReport:
    """Return the answer of `samebits verify`."""
    parts = [entry_report(entry, found) for entry in found.entries]
    return parts[0] if len(parts) == 1 else AnswerReport(_all_in_one(found), parts=parts)


def entry_report(one: Verified, found: EntriesVerified) -> AnswerReport:
    """Return the answer for one entry."""
    return AnswerReport(headline_of(one, found), _rows(one))


def _all_in_one(found: EntriesVerified) -> str:
    """Return the answer for several entries in one sentence."""
    count, names = len(found.entries), [entry.name for entry in found.entries if entry.kind == found.kind]
    some = f"{len(names)} of {count} entries"
    words = {
        "same": f"same bits: all {count} entries agree with {shown_path(found.lockfile)}",
        "different": f"different bits: {some} diverge: {', '.join(names)}",
        "unknown": f"unknown here: {some} were never locked for this environment",
        "undecided": f"undecided: {some} could not be judged: {', '.join(names)}",
    }
    return words[found.kind]


def headline_of(one: Verified, found: EntriesVerified) -> str:
    """Return the answer for one entry in one sentence."""
    lockfile = shown_path(found.lockfile)
    if one.written:
        action = "added to" if one.written == "added" else "written anew in"
        return f"same bits: {one.name} was {action} {lockfile} for this environment"
    if one.kind == "same":
        what = f"{counted(one.steps, 'step')}: {stream_list(one.streams)}"
        return f"same bits: {one.name} agrees with {lockfile} in {what}"
    if one.kind == "different":
        return f"different bits: {one.name} diverges from {lockfile} {divergence_line(one.divergences[0])}"
    if one.kind == "unknown":
        return f"unknown here: {one.name} was never locked for this environment"
    message = one.error.message.splitlines()[0] if one.error is not None else "it could not be judged"
    return f"undecided: {one.name}: {message}"


def divergence_line(place: LockDivergence) -> str:
    """Return where a run diverges from what is locked, as a clause: `at step 37, in the gradients`."""
    if place.what in ("data", "artifact"):
        subject = "the data" if place.what == "data" else "an artifact"
        return f"in {subject}: {place.path} is not as it was locked{place.why and f': {place.why}'}"
    if place.what == "length":
        assert place.lengths is not None
        return f"in its length: it took {counted(place.lengths[1], 'step')}, and {place.lengths[0]} are locked"
    if place.seen == "end" and place.is_exact:
        return f"after the last step, in {_first_stream(place)}"
    if place.is_exact and place.seen == str(place.step):
        return f"at step {place.step}, in {_first_stream(place)}"
    if place.is_exact:
        return f"at step {place.step}"
    since = 0 if place.agreed is None else place.agreed + 1
    return f"between steps {since} and {place.step}"


def _first_stream(place: LockDivergence) -> str:
    return stream_words(place.streams[0]) if place.streams else "something that is recorded but not locked"


def _rows(one: Verified) -> Rows:
    rows: Rows = []
    if one.kind == "undecided" and one.error is not None:
        rows += [("error", line) for line in one.error.message.splitlines()[1:]]
        rows.append(("hint", one.error.hint))
    if not one.written:
        rows += _divergence_rows(one)
    rows += _environment_rows(one)
    rows += [("code", change_line(change)) for change in one.code]
    if one.kind != "same" and one.locked is not None and not one.code:
        rows.append(("code", "no file of the project that was imported or read has changed since this was locked"))
    rows.append(("locked", "" if one.locked is None else _locked_line(one.locked)))
    if one.kind != "same" and one.folder is not None:
        rows.append(("run", shown_path(one.folder)))
    rows += [("next", command) for command in next_commands(one)]
    return [*rows, *(("note", note) for note in one.notes), *unseen_rows(one.not_observed)]


def _divergence_rows(one: Verified) -> Rows:
    rows: Rows = []
    if one.kind == "unknown" and one.divergences:
        rows.append(("bits", f"different from those of {one.home}: {divergence_line(one.divergences[0])}"))
    for place in one.divergences if one.kind == "different" else ():
        rows += [("also", "" if place is one.divergences[0] else divergence_line(place)), *_detail_rows(place)]
    if one.kind == "different" and one.steps and all(place.what in ("data", "artifact") for place in one.divergences):
        rows.append(("agree", f"the training: {counted(one.steps, 'step')}, in {stream_list(one.streams)}"))
    if one.is_steady is not None and not one.written:
        rows.append(("again", _STEADY[one.is_steady]))
    if one.agrees_with:
        steps = counted(one.steps or _steps(one.locked), "step")
        rows.append(("bits", f"the same as those of {one.agrees_with}, in {steps}"))
    return rows


def _detail_rows(place: LockDivergence) -> Rows:
    rows: Rows = []
    if place.what == "stream" and place.streams:
        at = "after the last step" if place.seen == "end" else f"at step {place.seen}"
        rows.append(("first", f"{at} these differ from what is locked: {stream_list(place.streams)}"))
    if place.losses is not None:
        rows.append(("", f"loss {' '.join(place.losses[0])} locked, {' '.join(place.losses[1])} here"))
    if place.what in ("stream", "length"):
        since = "no step" if place.agreed is None else "step 0" if place.agreed == 0 else f"steps 0 to {place.agreed}"
        rows.append(("agree", since))
    if place.recordings is not None:
        rows.append(("trainings", f"{place.recordings[0]} of {place.recordings[1]} differ"))
    return rows


def _environment_rows(one: Verified) -> Rows:
    if not one.environment.torch:
        return []
    rows = [("here", environment_line(one.environment))]
    label = "differs" if one.kind == "unknown" else "besides"
    rows += [(label, difference_line(difference)) for difference in one.differences]
    if one.kind != "same":
        reads = (f"the script reads {name}, which differs from when it was locked" for name in one.variables)
        rows += [("besides", text) for text in reads]
    is_different = one.variables or any(difference.can_change_bits for difference in one.differences)
    if one.kind == "different" and not is_different:
        matches = f"the environment matches the locked one, {one.home}"
        rows.append(("", f"{matches}, in everything that is known to change bits"))
    return rows


def environment_line(environment: Environment) -> str:
    """Return an environment in one line: `cpu, torch 2.13.0+cpu, 2 threads, AVX512`; empty where torch never ran."""
    if not environment.torch:
        return ""
    parts = [environment.device, f"torch {environment.torch}", counted(environment.threads, "thread")]
    return f"{', '.join(filter(None, [*parts, environment.instructions]))} ({environment.name})"


def difference_line(difference: EnvironmentDifference) -> str:
    """Return a difference in one line: `cpu-threads: 2 locked, 1 here; it can change bits: …`."""
    can = "can" if difference.can_change_bits else "cannot"
    return f"{values_line(difference)}; it {can} change bits: {difference.why}"


def values_line(difference: EnvironmentDifference) -> str:
    """Return both values of a difference: `cpu-threads: 2 locked, 1 here`."""
    return f"{difference.name}: {difference.locked} locked, {difference.here} here"


def change_line(change: CodeChange) -> str:
    """Return a change of the code in one line: `train.py:12, 3 lines changed since it was locked`."""
    if change.line is None:
        return f"{change.path}, {change.how} since it was locked"
    return f"{change.path}:{change.line}, {counted(change.lines or 0, 'line')} changed since it was locked"


def _locked_line(locked: Locked) -> str:
    commit = f", at commit {locked.commit}" if locked.commit else ""
    dirty = f" with changes in {', '.join(locked.uncommitted)}" if locked.uncommitted else ""
    return f"by samebits {locked.samebits}{commit}{dirty}, {_REPEATS[locked.repeats]}"


def next_commands(one: Verified) -> list[str]:
    """Return the commands to type next; none where there is nothing to do."""
    if one.kind == "unknown":
        return [f"samebits verify {one.name} --update-new-only     (adds this environment)"]
    if one.kind == "different" and one.is_steady is False:
        return [f"samebits check {one.command}     (says why it does not repeat)"]
    if one.kind == "different":
        return [f"samebits verify {one.name} --update     (if the new bits are intended)"]
    return []


def lock_report(found: EntryLocked) -> AnswerReport:
    """Return the answer of `samebits lock`."""
    if found.locked is None and found.check is not None and found.error is None:
        return AnswerReport(_headline(found), parts=[check_report(found.check), *_once_pinned(found, found.check)])
    rows = [("here", environment_line(found.environment))]
    if found.locked is not None:
        rows.append(("locked", _locked_line(found.locked)))
        rows.append(("", f"{counted(found.locked.steps, 'step')}: {stream_list(found.locked.streams)}"))
        rows += [("", f"{path} {digest}") for path, digest in sorted(found.locked.artifacts.items())]
    if found.changed is not None:
        rows.append(("before", f"other bits: this run diverges from what was locked {divergence_line(found.changed)}"))
    rows += [("note", note) for note in found.notes]
    return AnswerReport(_headline(found), [*rows, *unseen_rows(found.not_observed)])


def _once_pinned(found: EntryLocked, check: CheckVerdict) -> list[AnswerReport]:
    """Tell how to lock a script that repeats only with pins."""
    if check.remedy is None or not check.remedy.verified:
        return []
    pins = [*pins_given(check).values(), *check.remedy.pins]
    words = [f"--pin {pin}" for pin in pins]
    words += [f"{name} {value}" for name in ("--seed", "--max-steps") for value in check.given(name)]
    return [AnswerReport(f"With these pins it can be locked: samebits lock {' '.join(words)} {found.command}")]


def _headline(found: EntryLocked) -> str:
    """Return in one sentence whether the command was locked."""
    if found.error is not None:
        return f"not locked: {found.error.message.splitlines()[0]}"
    if found.kind == "different":
        return f"not locked: {found.command} does not repeat"
    return f"locked: {found.name} in {shown_path(found.lockfile)}, {counted(_steps(found.locked), 'step')}"


def _steps(locked: Locked | None) -> int:
    return 0 if locked is None else locked.steps
