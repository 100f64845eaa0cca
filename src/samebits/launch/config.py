"""`[tool.samebits]` in pyproject.toml: defaults for the options of the command line."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from samebits.base.errors import ConfigError, StorageError, UnknownFactorError
from samebits.base.records import from_data
from samebits.lint.linting import LintOptions
from samebits.workspace.place import Isolation


@dataclass(frozen=True)
class Config:
    """The options of `samebits check` that can be configured; the file writes their names with dashes.

    Attributes:
        keep: how many folders stay under `.samebits/`.
        lint: a table of its own, `[tool.samebits.lint]`, with `select`, `ignore` and `exclude`.
    """

    seed: int = 0
    runs: int = 3
    max_runs: int | None = None
    jobs: int | Literal["auto"] | None = None
    max_steps: int | None = None
    timeout: float | None = None
    level: Literal["step", "op"] = "step"
    keep: int = 20
    pin: tuple[str, ...] = ()
    vary: tuple[str, ...] = ()
    isolation: Isolation = "copy"
    share: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    lint: LintOptions = field(default_factory=LintOptions)

    def filling(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options by name; those that are None or empty get their configured values."""
        own = {**vars(self), "pins": self.pin}
        return {name: own.get(name, value) if value is None or value == () else value for name, value in given.items()}


def read_config() -> Config:
    """Read the configuration in the nearest pyproject.toml, else the defaults; ConfigError where it is wrong."""
    try:
        start = Path.cwd()
    except OSError as error:
        raise StorageError("the current folder was deleted", "change into one that exists") from error
    paths = (parent / "pyproject.toml" for parent in (start, *start.parents))
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return Config()
    return Config(**{key.replace("-", "_"): _checked(path, key, value) for key, value in _table(path).items()})


def _table(path: Path) -> dict[str, object]:
    """Return the table `[tool.samebits]`, empty where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
        if "samebits" not in text:
            return {}
        table = toml_reader().loads(text).get("tool", {}).get("samebits", {})
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "fix it, or run samebits from another folder") from error
    if not isinstance(table, dict):
        raise ConfigError(f"tool.samebits in {path} should be a table, got {table!r}", "write [tool.samebits]")
    return table


def toml_reader() -> ModuleType:
    """Return the module that has `loads` for TOML; ValueError where it is not installed."""
    # tomllib is part of Python from 3.11 on; before that, samebits depends on tomli.
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    try:
        return importlib.import_module(name)
    except ImportError as error:
        major, minor = sys.version_info[:2]
        raise ValueError(f"Python {major}.{minor} needs the package {name} for it") from error


# The smallest values that options may have.
LEAST = {"runs": 2, "max-runs": 2, "jobs": 1, "max-steps": 1, "keep": 1}
_WANTED = {
    "jobs": 'a whole number or "auto"',
    "level": '"step" or "op"',
    "timeout": "a number of seconds",
    "pin": "a list of factors",
    "vary": "a list of factors",
    "isolation": '"copy" or "none"',
    "share": "a list of paths",
    "ignore": "a list of paths",
    "lint": "a table with lists of codes and paths",
}


def _check_key(key: str, kind: type[Config | LintOptions], where: str) -> None:
    keys = [field.name.replace("_", "-") for field in fields(kind)]
    if key not in keys:
        near = difflib.get_close_matches(key, keys, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys are {', '.join(keys)}"
        raise ConfigError(f"unknown key {key!r} in {where}", hint)


def _checked(path: Path, key: str, value: object) -> Any:
    where = f"[tool.samebits] of {path}"
    _check_key(key, Config, where)
    for inner in value if key == "lint" and isinstance(value, dict) else ():
        _check_key(inner, LintOptions, f"[tool.samebits.lint] of {path}")
    name = key.replace("-", "_")
    try:
        read = getattr(from_data(Config, {name: value}), name)
    except ValueError:
        wanted = _WANTED.get(key, "a whole number")
        raise ConfigError(f"{key} = {value!r} in {where} should be {wanted}") from None
    least = LEAST.get(key)
    if least is not None and isinstance(read, int) and read < least:
        raise ConfigError(f"{key} = {value!r} in {where} should be at least {least}")
    if key == "timeout" and not read > 0:
        raise ConfigError(f"{key} = {value!r} in {where} should be more than 0 seconds")
    for word in read if key in ("pin", "vary") else ():
        # Few files name factors: the catalogue is imported only when one does.
        from samebits.factors.catalog import find

        try:
            find(word.partition("=")[0])
        except UnknownFactorError as error:
            raise ConfigError(f"{key} in {where}: {error.message}", error.hint) from error
    return read if isinstance(value, list | dict) else value
