"""Every error a user can meet: one sentence, a hint, a kind for programs, an exit code for shells."""

from __future__ import annotations

from collections.abc import Mapping


class SamebitsError(Exception):
    """Something failed that the user can understand and change.

    Args:
        message: one sentence without a full stop: what failed, with which value.
        hint: what to do about it; shown on a line of its own.
    """

    kind = "error"
    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n\nhint: {self.hint}" if self.hint else self.message

    def as_data(self) -> dict[str, str | int]:
        """Plain data, for an answer that is kept."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint, "exit_code": self.exit_code}


class UsageError(SamebitsError, ValueError):
    """The command line or the arguments make no sense together."""

    kind = "usage"


class UnknownFactorError(SamebitsError, ValueError):
    """A name that is no factor's."""

    kind = "unknown_factor"


class ConfigError(SamebitsError, ValueError):
    """`[tool.samebits]` in pyproject.toml holds something that cannot be used."""

    kind = "config"


class CommandNotFoundError(SamebitsError, FileNotFoundError):
    """The script or program to run does not exist."""

    kind = "command_not_found"


class InjectionError(SamebitsError, RuntimeError):
    """The command ran, but samebits could not start inside it."""

    kind = "not_injected"


class NoTorchError(SamebitsError, RuntimeError):
    """The command never imported torch."""

    kind = "no_torch"


class NothingTrainedError(SamebitsError, RuntimeError):
    """The command finished without one step that could be recorded."""

    kind = "nothing_trained"


class ScriptFailedError(SamebitsError, RuntimeError):
    """The user's command failed in every run, so there is nothing to compare."""

    kind = "script_failed"


class ScriptHangsError(SamebitsError, TimeoutError):
    """The user's command ran past its time limit."""

    kind = "timeout"


class StorageError(SamebitsError, OSError):
    """A run folder cannot be written (disk full, no permission)."""

    kind = "storage"


class RecordingError(SamebitsError, ValueError):
    """A run folder cannot be read: missing, empty, or no recording at all."""

    kind = "recording"


class UnbegunError(RecordingError):
    """A recording whose process was ended before its file was made whole; it holds nothing yet."""


class NewerSchemaError(RecordingError):
    """A recording made by a newer samebits than this one."""

    kind = "newer_schema"


class DigestError(RecordingError):
    """Two recordings whose digests were made by two definitions."""

    kind = "digest"


class LockfileError(SamebitsError, ValueError):
    """A lockfile cannot be used: it is not there, empty, cut off, edited, in the midst of a merge, or no lockfile."""

    kind = "lockfile"


class NewerLockfileError(LockfileError):
    """A lockfile written by a newer samebits than this one."""

    kind = "newer_schema"


class DivergenceError(SamebitsError, AssertionError):
    """What was to repeat did not; raised by `assert_repeats`."""

    kind = "divergence"
    exit_code = 1


class BudgetError(SamebitsError, TimeoutError):
    """What was asked for cannot be done within the time allowed."""

    kind = "budget"


class DataStateError(SamebitsError, ValueError):
    """A loader's state belongs to another dataset, another seed, or a newer samebits."""

    kind = "data_state"


class StateError(SamebitsError, ValueError):
    """A state of a training does not fit: something is missing, too much, of another shape, or of other ranks."""

    kind = "state"


class WorkerDiedError(SamebitsError, RuntimeError):
    """A DataLoader worker was killed or exited while it fetched."""

    kind = "worker_died"


class TooLateError(SamebitsError, RuntimeError):
    """A factor could not be pinned because something was done too early."""

    kind = "too_late"


class InterruptError(SamebitsError, KeyboardInterrupt):
    """The user pressed Ctrl-C; every process was ended and what was recorded is kept."""

    kind = "interrupted"
    exit_code = 130

    @classmethod
    def by(cls, signal: int, home: object) -> InterruptError:
        """With the status that a shell gives for the signal."""
        error = cls("interrupted; every process was ended", f"what was recorded is in {home}")
        error.exit_code = 128 + signal
        return error


def error_from_data(data: Mapping[str, object]) -> SamebitsError:
    """The error that `SamebitsError.as_data` made plain data of; of an unknown kind, a plain SamebitsError."""
    message, code = data.get("message"), data.get("exit_code")
    if not isinstance(message, str) or not isinstance(code, int):
        raise ValueError(f"{data!r} is no error")
    error = _of_kind(data.get("kind"))(message, str(data.get("hint", "")))
    error.exit_code = code
    return error


def _of_kind(kind: object) -> type[SamebitsError]:
    waiting, found = [SamebitsError], SamebitsError
    while waiting:
        one = waiting.pop()
        waiting += one.__subclasses__()
        if one.kind == kind and "kind" in vars(one):
            found = one
    return found


class TooLateWarning(UserWarning):
    """A factor could not be pinned any more; `pin(strict=True)` raises instead."""


class UnseenWarning(UserWarning):
    """Something ran that could not be looked at."""


class StateWarning(UserWarning):
    """A checkpoint was passed over, or something goes on otherwise than where it was saved."""
