"""The user's command: made whole, and looked at before it is started."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.errors import CommandNotFoundError, InjectionError, UsageError


@dataclass(frozen=True)
class Command:
    """A command as it will be started.

    Attributes:
        argv: program and arguments.
        typed: what the user typed, for showing.
        script: the Python script in it, where one can be told; for static looks.
    """

    argv: tuple[str, ...]
    typed: tuple[str, ...]
    script: str | None = None

    def __str__(self) -> str:
        return shlex.join(self.typed)


def understand(words: Sequence[str]) -> Command:
    """The command behind what was typed; `train.py --lr 3` is short for `python train.py --lr 3`.

    Raises:
        UsageError: nothing was typed.
        CommandNotFoundError: the script or the program does not exist.
        InjectionError: Python is told to ignore the way samebits comes in (-I, -E, -S).
    """
    if not words:
        raise UsageError("there is no command to run", "for example: samebits check train.py")
    typed = tuple(words)
    if words[0].endswith(".py"):
        _need_script(words[0])
        return Command((_python(), *words), typed, os.path.abspath(words[0]))
    if shutil.which(words[0]) is None:
        hint = (
            "is it a Python script? its name has to end in .py" if os.path.exists(words[0]) else _near_script(words[0])
        )
        raise CommandNotFoundError(f"there is no program {words[0]!r}", hint)
    script = None
    if _is_python(words[0]):
        script = _python_script(words)
    return Command(typed, typed, script)


def _python() -> str:
    """This interpreter when it has torch, else the one called python: samebits may be installed apart from torch."""
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    return shutil.which("python") or shutil.which("python3") or sys.executable


def _is_python(program: str) -> bool:
    return re.fullmatch(r"python(\d+(\.\d+)?)?(\.exe)?", os.path.basename(program)) is not None


def _python_script(words: Sequence[str]) -> str | None:
    """The script in a python command line; refuses flags that keep samebits out."""
    takes_value = {"-W", "-X", "--check-hash-based-pycs"}
    skip = False
    for word in words[1:]:
        if skip:
            skip = False
        elif word in ("-c", "-m", "-"):
            return None
        elif word in takes_value:
            skip = True
        elif word.startswith("-"):
            _refuse_isolation(word, words)
            if word[1:2] != "-" and ("c" in word or "m" in word):
                return None
        else:
            _need_script(word)
            return os.path.abspath(word)
    raise UsageError(f"{shlex.join(words)!r} runs no script", "add the script, a -m module, or -c code")


def _refuse_isolation(word: str, words: Sequence[str]) -> None:
    letters = set(word[1:]) & set("IES") if re.fullmatch(r"-[a-zA-Z]+", word) and word[1] not in "WX" else set()
    if letters:
        flag = f"-{sorted(letters)[0]}"
        raise InjectionError(
            f"{shlex.join(words[:2])} starts Python with {flag}, which keeps samebits out",
            f"leave {flag} away: samebits comes in through PYTHONPATH and sitecustomize",
        )


def _need_script(path: str) -> None:
    if not os.path.exists(path):
        raise CommandNotFoundError(f"there is no script {path!r}", _near_script(path))
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        raise CommandNotFoundError(f"{path!r} is a folder without __main__.py", "give a script, or python -m package")


def _near_script(path: str) -> str:
    import difflib

    folder = os.path.dirname(path) or "."
    names = [name for name in os.listdir(folder) if name.endswith(".py")] if os.path.isdir(folder) else []
    near = difflib.get_close_matches(os.path.basename(path), names, n=1)
    if near:
        return f"did you mean {os.path.join(os.path.dirname(path), near[0])}?"
    return f"looked in {os.path.abspath(folder)}"
