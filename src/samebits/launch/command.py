"""The user's command: completed, and checked before it is started."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from samebits.base.errors import CommandNotFoundError, InjectionError, UsageError
from samebits.base.sites import shown_path


@dataclass(frozen=True)
class Command:
    """A command as it will be started (`argv`), and as the user typed it and sees it (`typed`).

    Attributes:
        script: path of the Python script in it, where it is known; for static analysis.
    """

    argv: tuple[str, ...]
    typed: tuple[str, ...]
    script: str | None = None

    def __str__(self) -> str:
        return shlex.join(self.typed)


def parse_command(words: Sequence[str]) -> Command:
    """Return the command that was typed; `train.py` is short for `python train.py`, `-m train` for `python -m train`.

    Raises:
        UsageError: nothing was typed, or runs cannot be made on this system.
        CommandNotFoundError: the script or the program does not exist.
        InjectionError: Python is started with an option that keeps samebits out (-I, -E, -S).
    """
    if not words:
        raise UsageError("there is no command to run", "give a script with its options: train.py --lr 3")
    typed = tuple(words)
    _refuse_unsupported(words)
    if words[0].endswith(".py"):
        _need_script(words[0])
        return Command((this_python(), *words), typed, os.path.abspath(words[0]))
    if words[0] == "-m":
        if len(words) == 1:
            raise UsageError("-m names no module", "add it: -m package.train")
        return Command((this_python(), *words), typed)
    if shutil.which(words[0]) is None:
        raise _no_program(words[0])
    return Command(typed, typed, _python_script(words) if is_python(words[0]) else None)


_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


def _refuse_unsupported(words: Sequence[str]) -> None:
    """Raise an error for a common mistake in typing a command, with a hint at the words that would run it."""
    name, rest = words[0], shlex.join(words[1:])
    if sys.platform == "win32":
        raise UsageError("samebits makes its runs on Linux, and this is Windows", "start it in WSL, or in a container")
    if os.path.exists(name) or shutil.which(name) is not None:
        if name.endswith(".ipynb"):
            hint = f"turn it into a script: jupyter nbconvert --to script {shlex.quote(name)}"
            raise CommandNotFoundError(f"{name!r} is a notebook, not a command", hint)
        return
    if " " in name.strip() and not re.fullmatch(r"'[^']*'|\"[^\"]*\"", name.strip()):
        hint = f"drop the quotation marks: {' '.join(filter(None, (name.strip(), rest)))}"
        raise CommandNotFoundError(f"there is no program {name!r}", hint)
    if re.fullmatch(r"[A-Za-z_]\w*=.*", name, re.DOTALL):
        hint = f"variables come before samebits, or after env: env {shlex.join(words)}"
        raise CommandNotFoundError(f"{name!r} sets a variable and starts nothing", hint)
    if _MODULE.fullmatch(name) and os.path.exists(f"{name.replace('.', os.sep)}.py"):
        hint = f"a module is given after -m: {' '.join(filter(None, ('-m', name, rest)))}"
        raise CommandNotFoundError(f"there is no program {name!r}", hint)


def _no_program(name: str) -> CommandNotFoundError:
    if os.path.isdir(name):
        return CommandNotFoundError(f"{name!r} is a folder", f"where it has a __main__.py: python {shlex.quote(name)}")
    if os.path.exists(name):
        hint = f"name what runs it: sh {shlex.quote(name)}, or python {shlex.quote(name)}"
        return CommandNotFoundError(f"{name!r} is not executable", hint)
    return CommandNotFoundError(f"there is no program {name!r}", _near_script(name))


def this_python() -> str:
    """Return this interpreter if it has torch, else that called python: samebits may be installed apart from torch."""
    if importlib.util.find_spec("torch") is not None:
        return sys.executable
    return shutil.which("python") or shutil.which("python3") or sys.executable


def python_word() -> str:
    """Return the word to type for `this_python`: `python`, or its path where `python` is another interpreter."""
    interpreter = this_python()
    return "python" if shutil.which("python") == interpreter else shown_path(interpreter)


def is_python(program: str) -> bool:
    """Whether the name of a program is that of a Python interpreter."""
    return re.fullmatch(r"python(\d+(\.\d+)?[dt]?)?", os.path.basename(program)) is not None


# Flags without a value, then at most one with a value, which is the rest of the word, or else the next word.
_FLAGS = re.compile(r"-(?!-)(?P<letters>[^cmWX]*)(?P<valued>[cmWX]?)(?P<value>.*)", re.DOTALL)


def _python_script(words: Sequence[str]) -> str | None:
    """Return the script of a Python command line, None for -m, -c and stdin; refuse flags that keep samebits out."""
    rest = iter(words[1:])
    for word in rest:
        if word == "-":
            return None
        if not word.startswith("-"):
            _need_script(word)
            return os.path.abspath(word)
        if word == "--check-hash-based-pycs":
            next(rest, None)
        flags = _FLAGS.fullmatch(word)
        if flags is None:  # another long option
            continue
        _refuse_isolation(flags["letters"], words)
        if flags["valued"] in ("c", "m"):
            return None
        if flags["valued"] and not flags["value"]:
            next(rest, None)
    raise UsageError(f"{shlex.join(words)!r} runs no script", "add the script, a -m module, or -c code")


def _refuse_isolation(letters: str, words: Sequence[str]) -> None:
    isolating = sorted(set(letters) & set("IES"))
    if isolating:
        raise InjectionError(
            f"{words[0]} is started with -{isolating[0]}, which keeps samebits out",
            f"drop -{isolating[0]}: samebits comes in through PYTHONPATH and sitecustomize",
        )


def _need_script(path: str) -> None:
    if not os.path.exists(path):
        raise CommandNotFoundError(f"there is no script {path!r}", _near_script(path))
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        raise CommandNotFoundError(f"{path!r} is a folder without __main__.py", "give a script, or python -m package")


def _near_script(path: str) -> str:
    import difflib

    folder = os.path.dirname(path) or "."
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".py")]
    except OSError:
        names = []
    near = difflib.get_close_matches(os.path.basename(path), names, n=1)
    if near:
        return f"did you mean {os.path.join(os.path.dirname(path), near[0])}?"
    return f"looked in {os.path.abspath(folder)}"
