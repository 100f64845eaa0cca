"""Every error a user can meet: one sentence, a hint, a kind for programs, an exit code for shells."""

from __future__ import annotations

from collections.abc import Mapping

_KINDS: dict[str, type[SamebitsError]] = {}


class SamebitsError(Exception):
    """Something failed that the user can understand and change.

    Args:
        message: one sentence without a full stop: what failed, with which value.
        hint: what to do about it; shown on a line of its own.

    Attributes:
        kind: for programs, as in JSON answers.
        exit_code: for shells.
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
        """Plain data, for an answer that is kept."""
        return {"kind": self.kind, "message": self.message, "hint": self.hint, "exit_code": self.exit_code}


class UsageError(SamebitsError, ValueError, kind="usage"):
    """The command line or the arguments make no sense together."""


class UnknownFactorError(SamebitsError, ValueError, kind="unknown_factor"):
    """A name that is no factor's."""


class ConfigError(SamebitsError, ValueError, kind="config"):
    """`[tool.samebits]` in pyproject.toml holds something that cannot be used."""


class CommandNotFoundError(SamebitsError, FileNotFoundError, kind="command_not_found"):
    """The script or program to run does not exist."""


class InjectionError(SamebitsError, RuntimeError, kind="not_injected"):
    """The command ran, but samebits could not start inside it."""


class NoTorchError(SamebitsError, RuntimeError, kind="no_torch"):
    """The command never imported torch."""


class NothingTrainedError(SamebitsError, RuntimeError, kind="nothing_trained"):
    """The command finished without one step that could be recorded."""


class ScriptFailedError(SamebitsError, RuntimeError, kind="script_failed"):
    """The user's command failed in every run, so there is nothing to compare."""


class UndecidedError(SamebitsError, RuntimeError, kind="undecided"):
    """Runs were made, and what they show decides nothing."""


class ScriptHangsError(SamebitsError, TimeoutError, kind="timeout"):
    """The user's command ran past its time limit."""


class StorageError(SamebitsError, OSError, kind="storage"):
    """What is recorded finds no room, or no permission: a full disk, full memory, a folder of others."""


class PatchError(SamebitsError, OSError, kind="patch"):
    """A patch cannot be applied: a file is read-only, or not what it was when it was read."""


class RecordingError(SamebitsError, ValueError, kind="recording"):
    """A run folder cannot be read: missing, empty, or no recording at all."""


class UnbegunError(RecordingError):
    """A recording whose process was ended before its file was made whole; it holds nothing yet."""


class NewerSchemaError(RecordingError, kind="newer_schema"):
    """A recording made by a newer samebits than this one."""


class DigestError(RecordingError, kind="digest"):
    """Two recordings whose digests were made by two definitions."""


class LockfileError(SamebitsError, ValueError, kind="lockfile"):
    """A lockfile cannot be used: it is not there, empty, cut off, edited, in the midst of a merge, or no lockfile."""


class NewerLockfileError(LockfileError, kind="newer_schema"):
    """A lockfile written by a newer samebits than this one."""


class DivergenceError(SamebitsError, AssertionError, kind="divergence"):
    """What was to repeat did not; raised by `assert_repeats`."""

    exit_code = 1


class BudgetError(SamebitsError, TimeoutError, kind="budget"):
    """What was asked for cannot be done within the time allowed."""


class DataStateError(SamebitsError, ValueError, kind="data_state"):
    """A loader's state belongs to another dataset, another seed, or a newer samebits."""


class StateError(SamebitsError, ValueError, kind="state"):
    """A state of a training does not fit: something is missing, too much, of another shape, or of other ranks."""


class WorkerDiedError(SamebitsError, RuntimeError, kind="worker_died"):
    """A DataLoader worker was killed or exited while it fetched."""


class TooLateError(SamebitsError, RuntimeError, kind="too_late"):
    """A factor could not be pinned because something was done too early."""


class InterruptError(SamebitsError, KeyboardInterrupt, kind="interrupted"):
    """The user pressed Ctrl-C; every process was ended and what was recorded is kept."""

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
        raise ValueError(f"{data!r} is not an error")
    error = _KINDS.get(str(data.get("kind")), SamebitsError)(message, str(data.get("hint", "")))
    error.exit_code = code
    return error


class TooLateWarning(UserWarning):
    """A factor could not be pinned any more; `pin(strict=True)` raises instead."""


class UnseenWarning(UserWarning):
    """Something ran that could not be looked at."""


class StateWarning(UserWarning):
    """A checkpoint was passed over, or something resumes from another state than was saved."""


def exit_code_of(kind: str, error: SamebitsError | None) -> int:
    """The exit status of an answer: its error's, else 0 for what agrees, 1 for what differs and 2 for all else."""
    return {"same": 0, "locked": 0, "different": 1}.get(kind, 2) if error is None else error.exit_code
