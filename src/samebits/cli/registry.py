"""Which commands there are: every file in `cli/commands`. Finding them imports none of them."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from importlib.machinery import FileFinder
from pathlib import Path

import click

from samebits.cli import commands

# The first line of a command's file: """`samebits check`: same bits? If not: ..."""
_HEAD = re.compile(r'"""`samebits [\w-]+`: (?P<help>.*?)(""")?$')


@cache
def helps() -> dict[str, str]:
    """Name → help in one line, for every command, by name."""
    found = {}
    for module in pkgutil.iter_modules(commands.__path__):
        assert isinstance(module.module_finder, FileFinder)
        path = Path(module.module_finder.path, f"{module.name}.py")
        with path.open(encoding="utf-8") as file:
            head = _HEAD.match(file.readline().rstrip())
        assert head is not None, f"{path} does not begin with its name and its help"
        found[module.name] = head["help"][:1].upper() + head["help"][1:]
    return found


def find_command(name: str) -> click.Command:
    """The command of a file, imported now."""
    command = importlib.import_module(f"{commands.__name__}.{name}").command
    assert isinstance(command, click.Command)
    return command
