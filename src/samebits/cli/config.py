"""`[tool.samebits]` in pyproject.toml: defaults for the options of the command line."""

from __future__ import annotations

import difflib
import importlib
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from samebits.errors import ConfigError
from samebits.factors.catalog import find


@dataclass(frozen=True)
class Config:
    """What can be configured; names in the file are written with dashes.

    Attributes:
        seed: root of all pinned streams.
        runs, max_runs, jobs, max_steps, timeout: as the options of `samebits check`.
        keep: how many folders stay under `.samebits/`.
        pin, vary: factors, as the options.
    """

    seed: int = 0
    runs: int = 3
    max_runs: int = 40
    jobs: int = 1
    max_steps: int | None = None
    timeout: float | None = None
    keep: int = 20
    pin: tuple[str, ...] = ()
    vary: tuple[str, ...] = ()


def read_config(folder: Path | None = None) -> Config:
    """The configuration of the nearest pyproject.toml, or the defaults.

    Raises:
        ConfigError: an unknown key, a value of another type, or a file that cannot be read.
    """
    path = next(
        (p / "pyproject.toml" for p in _upwards(folder or Path.cwd()) if (p / "pyproject.toml").is_file()), None
    )
    if path is None or sys.version_info < (3, 11):
        return Config()
    tomllib: Any = importlib.import_module("tomllib")

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("samebits", {})
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "mend it, or run samebits from another folder") from error
    return Config(**{key.replace("-", "_"): _checked(path, key, value) for key, value in table.items()})


def _upwards(folder: Path) -> list[Path]:
    return [folder, *folder.parents]


_KINDS: dict[str, tuple[type, ...]] = {"timeout": (int, float), "pin": (list,), "vary": (list,)}


def _checked(path: Path, key: str, value: Any) -> Any:
    known = [field.name.replace("_", "-") for field in fields(Config)]
    if key not in known:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known keys are {', '.join(known)}"
        raise ConfigError(f"unknown key {key!r} in [tool.samebits] of {path}", hint)
    kinds = _KINDS.get(key, (int,))
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise ConfigError(f"{key} = {value!r} in [tool.samebits] of {path} should be {kinds[-1].__name__}")
    if isinstance(value, list):
        for word in value:
            find(str(word).partition("=")[0])
        return tuple(str(word) for word in value)
    return value
