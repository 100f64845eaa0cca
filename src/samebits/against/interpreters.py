"""Another Python: whether it is one, whether it has torch, and which packages it has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from samebits.base.errors import CommandNotFoundError, InjectionError, NoTorchError, UsageError

OLDEST = (3, 10)
_SECONDS = 120.0
_MOST_SAID = 120
_MARK = "samebits-answer:"
# Read by any Python 3; what is asked for is known without importing a package.
_QUESTION = f"""
import json, sys
answer = {{"version": list(sys.version_info[:3])}}
if sys.version_info >= {OLDEST}:
    from importlib import metadata
    from importlib.util import find_spec
    own = {{}}
    for one in metadata.distributions():
        name = one.metadata["Name"]
        if name and name.lower().replace("_", "-") not in own:
            needs = [word for word in one.requires or () if "extra ==" not in word]
            own[name.lower().replace("_", "-")] = [one.version, needs]
    answer["packages"] = own
    answer["imports"] = {{name: list(set(dists)) for name, dists in metadata.packages_distributions().items()}}
    answer["has"] = ["torch"] if find_spec("torch") else []
    try:
        from xxhash import xxh3_64_intdigest
        answer["has"].append("xxhash")
    except ImportError:  # also where it is there, and cannot be used
        pass
print({_MARK!r} + json.dumps(answer))
"""

Relation = Literal["operation", "imported", "required", "other"]


@dataclass(frozen=True)
class Interpreter:
    """A Python and what is installed for it.

    Attributes:
        path: as it is started; a link of a virtual environment is not followed.
        python: its version.
        packages: name → version.
        requires: name → names of what that needs.
        imports: name of a module → packages that it comes from.
        has_xxhash: it can digest as this one does.
    """

    path: str
    python: str
    packages: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    imports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_xxhash: bool = True


@dataclass(frozen=True)
class Package:
    """A package that is not the same in both.

    Attributes:
        name: of the package; `python` is the interpreter itself.
        here, there: its versions; empty where it is not installed.
        relation: `operation` where the operation is its own, `imported` by the script, `required` by the owner.
    """

    name: str
    here: str
    there: str
    relation: Relation = "other"


def find_interpreter(given: str) -> Interpreter:
    """The interpreter at a path, or of that name in PATH; the folder of a virtual environment will do.

    Raises:
        CommandNotFoundError: there is none.
        UsageError: it is no Python.
        InjectionError: it is too old for samebits.
        NoTorchError: it has no torch.
    """
    path = _path_of(given)
    answer = _asked(path, given)
    python = ".".join(map(str, answer["version"]))
    if tuple(answer["version"]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise InjectionError(f"{given} is Python {python}, and samebits needs {oldest} or newer", "give a newer one")
    if "torch" not in answer["has"]:
        raise NoTorchError(f"{given} (Python {python}) has no torch", f"{path} -m pip install torch")
    return Interpreter(
        path,
        python,
        {name: version for name, (version, _) in answer["packages"].items()},
        {name: tuple(map(_name_of, needs)) for name, (_, needs) in answer["packages"].items()},
        {name: tuple(_name_of(one) for one in owners) for name, owners in answer["imports"].items()},
        "xxhash" in answer["has"],
    )


def _path_of(given: str) -> str:
    candidates = [given, *(os.path.join(given, *inside) for inside in (("bin", "python"), ("Scripts", "python.exe")))]
    for one in candidates:
        found = shutil.which(one)
        if found is not None:
            return os.path.abspath(found)
    if os.path.isdir(given):
        raise CommandNotFoundError(f"{given!r} is a folder without bin/python", "give a Python, or its environment")
    if os.path.exists(given):
        raise CommandNotFoundError(f"{given!r} is no program that can be executed", "give a Python: env/bin/python")
    raise CommandNotFoundError(f"there is no interpreter {given!r}", "give the path of a Python: env/bin/python")


def _asked(path: str, given: str) -> dict[str, Any]:
    try:
        done = subprocess.run(
            [path, "-c", _QUESTION], capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{given} did not say within {_SECONDS:.0f} s which Python it is") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{given} is no Python interpreter: {error}", "give a Python: env/bin/python") from error
    lines = [line.removeprefix(_MARK) for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if not lines:
        said = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[0]
        raise UsageError(f"{given} is no Python interpreter: {said[:_MOST_SAID]}", "give a Python: env/bin/python")
    return dict(json.loads(lines[-1]))


def _name_of(requirement: str) -> str:
    """`nvidia-cublas` of `nvidia_cublas (==12.8); sys_platform == "linux"`."""
    end = next((at for at, letter in enumerate(requirement) if not (letter.isalnum() or letter in "-_.")), None)
    return requirement[:end].lower().replace("_", "-")


def differing_packages(
    here: Interpreter, there: Interpreter, owners: Iterable[str] = (), imported: Iterable[str] = ()
) -> tuple[Package, ...]:
    """What is not the same in both: first the owners of the operation, then what the script imports.

    Args:
        here: one interpreter.
        there: the other.
        owners: names of packages that the operation belongs to.
        imported: names of modules that the user's files import.
    """
    own = set(owners)
    used = {name for module in imported for side in (here, there) for name in side.imports.get(module, ())}
    needed = {name for owner in own for side in (here, there) for name in side.requires.get(owner, ())}
    order: list[Relation] = ["operation", "imported", "required", "other"]

    def relation(name: str) -> Relation:
        return "operation" if name in own else "imported" if name in used else "required" if name in needed else "other"

    found = [Package("python", here.python, there.python)] if here.python != there.python else []
    for name in sorted({*here.packages, *there.packages}):
        a, b = here.packages.get(name, ""), there.packages.get(name, "")
        if a != b:
            found.append(Package(name, a, b, relation(name)))
    return tuple(sorted(found, key=lambda one: (order.index(one.relation), not (one.here and one.there))))


def modules_imported(files: Iterable[str]) -> set[str]:
    """The first words of what these files import, wherever in them."""
    import ast

    found: set[str] = set()
    for path in files:
        try:
            tree = ast.parse(Path(path).read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found
