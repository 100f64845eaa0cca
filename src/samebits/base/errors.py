"""Every error a user can meet, with a sentence, a hint, a kind for programs and an exit code for shells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_KINDS: dict[str, type[SamebitsError]] = {}


class SamebitsError(Exception):
    """An error that the user can understand and act on.

    Args:
        message: one sentence without a full stop: what failed, with which value.
        hint: what to do about it; shown on a line of its own.

    Attributes:
        kind: the name of the error for programs, as in JSON answers.
        exit_code: the status with which a command exits for this error.
    """

    kind = "error"
    exit_code = 2

    def __init_subclass__(cls, kind: str = "") -> None:
        if kind:
            cls.kind = kind
            _KINDS.setdefault(kind, cls)

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n\nhint: {self.hint}" if self.hint else self.message

    def as_data(self) -> dict[str, str | int]:
        """Return the error as plain data, as JSON answers hold it."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint, "exit_code": self.exit_code}


class UsageError(SamebitsError, ValueError, kind="usage"):
    """The command line or the arguments make no sense together."""


class UnknownFactorError(SamebitsError, ValueError, kind="unknown_factor"):
    """A factor was named that does not exist."""


class ConfigError(SamebitsError, ValueError, kind="config"):
    """`[tool.samebits]` in pyproject.toml holds something that cannot be used."""


class CommandNotFoundError(SamebitsError, FileNotFoundError, kind="command_not_found"):
    """The script or program to run does not exist."""


class InjectionError(SamebitsError, RuntimeError, kind="not_injected"):
    """The command ran, but samebits could not start inside it."""


class NoTorchError(SamebitsError, RuntimeError, kind="no_torch"):
    """The command never imported torch."""


class NothingTrainedError(SamebitsError, RuntimeError, kind="nothing_trained"):
    """The command finished without a step that could be recorded."""


class ScriptFailedError(SamebitsError, RuntimeError, kind="script_failed"):
    """The user's command failed in every run, so there is nothing to compare."""


class UndecidedError(SamebitsError, RuntimeError, kind="undecided"):
    """Runs were made, but they do not decide the question."""


class ScriptHangsError(SamebitsError, TimeoutError, kind="timeout"):
    """The user's command ran past its time limit."""


class StorageError(SamebitsError, OSError, kind="storage"):
    """Data cannot be stored: the disk or the memory is full, or a folder cannot be written or used."""


@contextmanager
def storing(what: object, hint: str = "choose another place with --out") -> Iterator[None]:
    """Turn an OSError in the block into a StorageError that says what could not be written."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot write {what}: {error.strerror}", hint) from error


class PatchError(SamebitsError, OSError, kind="patch"):
    """A patch cannot be applied: a file is read-only, or was changed after samebits read it."""


class RecordingError(SamebitsError, ValueError, kind="recording"):
    """A run folder cannot be read: it is missing, empty, damaged, or no run folder."""


class UnbegunError(RecordingError):
    """A recording that holds nothing yet: its process ended before the tables of the file were written."""


class NewerSchemaError(RecordingError, kind="newer_schema"):
    """A recording made by a newer samebits than this one."""


class DigestError(RecordingError, kind="digest"):
    """Two recordings cannot be compared, because their digests follow different definitions."""


class LockfileError(SamebitsError, ValueError, kind="lockfile"):
    """A lockfile cannot be used: it is missing, empty, truncated, edited, in a merge conflict, or no lockfile."""


class NewerLockfileError(LockfileError, kind="newer_schema"):
    """A lockfile written by a newer samebits than this one."""


class DivergenceError(SamebitsError, AssertionError, kind="divergence"):
    """A function or a test did not repeat bit for bit; `assert_repeats` raises it, among others."""

    exit_code = 1


class BudgetError(SamebitsError, TimeoutError, kind="budget"):
    """The request cannot be fulfilled within the time allowed."""


class DataStateError(SamebitsError, ValueError, kind="data_state"):
    """A loader's state belongs to another dataset, another seed, or a newer samebits."""


class StateError(SamebitsError, ValueError, kind="state"):
    """The state of a training does not fit: a part is missing, unexpected, of another shape, or from other ranks."""


class WorkerDiedError(SamebitsError, RuntimeError, kind="worker_died"):
    """A DataLoader worker was killed, or exited, while it fetched samples."""


class TooLateError(SamebitsError, RuntimeError, kind="too_late"):
    """A factor could not be pinned, because the program had already done something that pinning has to precede."""


class InterruptError(SamebitsError, KeyboardInterrupt, kind="interrupted"):
    """Ctrl-C or another signal interrupted the command; every process was ended, and recordings are kept."""

    exit_code = 130

    @classmethod
    def by(cls, signal: int, home: object) -> InterruptError:
        """Return the error for a signal, with the exit status that a shell gives for it."""
        error = cls("interrupted; every process was ended", f"what was recorded is in {home}")
        error.exit_code = 128 + signal
        return error


def error_from_data(data: Mapping[str, object]) -> SamebitsError:
    """Return the error that `SamebitsError.as_data` wrote; a plain SamebitsError where its kind is unknown."""
    message, code = data.get("message"), data.get("exit_code")
    if not isinstance(message, str) or not isinstance(code, int):
        raise ValueError(f"{data!r} is not an error")
    error = _KINDS.get(str(data.get("kind")), SamebitsError)(message, str(data.get("hint", "")))
    error.exit_code = code
    return error


class TooLateWarning(UserWarning):
    """A factor could not be pinned, because it was too late; `pin(strict=True)` raises TooLateError instead."""


class UnseenWarning(UserWarning):
    """Something ran that samebits could not observe."""


class StateWarning(UserWarning):
    """A checkpoint was skipped, or a part of the training resumes from another state than the saved one."""


def exit_code_of(kind: str, error: SamebitsError | None) -> int:
    """Return the exit status of an answer: that of its error, else 0 if bits agree, 1 if they differ, else 2."""
    return {"same": 0, "locked": 0, "different": 1}.get(kind, 2) if error is None else error.exit_code
