"""Asks another interpreter whether it is a Python, whether it has torch, and which packages it has."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from samebits.base.errors import CommandNotFoundError, InjectionError, NoTorchError, UsageError
from samebits.base.records import from_data

OLDEST = (3, 10)
_SECONDS = 120.0
_MOST_SAID = 120
_MARK = "samebits-answer:"
# A script that any Python 3 can parse; to answer, it imports no package but xxhash.
_QUESTION = f"""
import json, re, sys
answer = {{"python": ".".join(map(str, sys.version_info[:3]))}}
if sys.version_info >= {OLDEST}:
    from importlib import metadata
    from importlib.util import find_spec
    def own(word):  # nvidia-cublas, of nvidia_cublas (==12.8); sys_platform == "linux"
        return re.match(r"[\\w.-]*", word)[0].lower().replace("_", "-")
    named = [one for one in metadata.distributions() if one.metadata["Name"]]
    # Of several under one name the first one counts.
    dists = {{own(one.metadata["Name"]): one for one in reversed(named)}}
    answer["packages"] = {{name: one.version for name, one in dists.items()}}
    needs = {{name: [word for word in one.requires or () if "extra ==" not in word] for name, one in dists.items()}}
    answer["requires"] = {{name: list(map(own, words)) for name, words in needs.items()}}
    imports = metadata.packages_distributions()
    answer["imports"] = {{name: list(set(map(own, owners))) for name, owners in imports.items()}}
    answer["has_torch"] = find_spec("torch") is not None
    try:
        from xxhash import xxh3_64_intdigest
        answer["has_xxhash"] = True
    except ImportError:  # also where it is there, and cannot be used
        answer["has_xxhash"] = False
print({_MARK!r} + json.dumps(answer))
"""

Relation = Literal["operation", "imported", "required", "other"]


@dataclass(frozen=True)
class Interpreter:
    """A Python and what is installed for it.

    Attributes:
        path: the path to start it by; a link in a virtual environment is not followed.
        python: its version.
        packages: name → version.
        requires: name → names of the packages that it needs.
        imports: name of a module → packages that it comes from.
        has_xxhash: whether it can import xxhash, which the faster digest needs.
    """

    path: str
    python: str
    packages: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    imports: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    has_xxhash: bool = True


@dataclass(frozen=True)
class Package:
    """A package that differs between the two interpreters.

    Attributes:
        name: the name of the package; `python` is the interpreter itself.
        here, there: its versions; empty where it is not installed.
        relation: `operation` if the operation is its own, `imported` by the script, or `required` by such an owner.
    """

    name: str
    here: str
    there: str
    relation: Relation = "other"


def find_interpreter(given: str) -> Interpreter:
    """Return the interpreter at a path, of a name in PATH, or in a virtual environment's folder; it must have torch."""
    path = _path_of(given)
    answer = _asked(path, given)
    python = answer["python"]
    if "packages" not in answer:
        oldest = ".".join(map(str, OLDEST))
        raise InjectionError(f"{given} is Python {python}, and samebits needs {oldest} or newer", "give a newer one")
    if not answer["has_torch"]:
        raise NoTorchError(f"{given} (Python {python}) has no torch", f"{path} -m pip install torch")
    return from_data(Interpreter, {**answer, "path": path})


def _path_of(given: str) -> str:
    path = next(filter(None, map(shutil.which, (given, os.path.join(given, "bin", "python")))), None)
    if path is not None:
        return os.path.abspath(path)
    hint = "give the path of a Python, or of its environment: env/bin/python"
    if os.path.isdir(given):
        raise CommandNotFoundError(f"{given!r} is a folder without bin/python", hint)
    if os.path.exists(given):
        raise CommandNotFoundError(f"{given!r} is not executable", hint)
    raise CommandNotFoundError(f"there is no interpreter {given!r}", hint)


def _asked(path: str, given: str) -> dict[str, Any]:
    try:
        # Not in the current folder, where `import csv` may find a file of the user's.
        words = [path, "-c", _QUESTION]
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_SECONDS, stdin=subprocess.DEVNULL, cwd=os.sep
        )
        answer = next((line for line in reversed(done.stdout.splitlines()) if line.startswith(_MARK)), None)
        reason = (done.stderr.strip() or done.stdout.strip() or "it printed nothing").splitlines()[0][:_MOST_SAID]
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{given} did not say within {_SECONDS:.0f} s which Python it is") from error
    except (OSError, UnicodeDecodeError) as error:
        answer, reason = None, str(error)
    if answer is None:
        raise UsageError(f"{given} is not a Python interpreter: {reason}", "give a Python: env/bin/python")
    return dict(json.loads(answer.removeprefix(_MARK)))


def differing_packages(
    here: Interpreter, there: Interpreter, owners: Collection[str] = (), imported: Iterable[str] = ()
) -> tuple[Package, ...]:
    """Return the packages that differ: first those that own the operation, then those of imported modules."""
    both = here, there
    used = {name for module in imported for side in both for name in side.imports.get(module, ())}
    needed = {name for owner in owners for side in both for name in side.requires.get(owner, ())}
    # The first relation that holds counts.
    relations: list[tuple[Relation, Collection[str]]] = [
        ("operation", owners),
        ("imported", used),
        ("required", needed),
        ("other", here.packages.keys() | there.packages.keys()),
    ]
    packages = [Package("python", here.python, there.python)]
    for name in sorted(relations[-1][1]):
        relation = next(relation for relation, names in relations if name in names)
        packages.append(Package(name, here.packages.get(name, ""), there.packages.get(name, ""), relation))
    order = [relation for relation, _ in relations]
    differing = (package for package in packages if package.here != package.there)
    return tuple(sorted(differing, key=lambda one: (order.index(one.relation), not (one.here and one.there))))


def modules_imported(files: Iterable[str]) -> set[str]:
    """Return the top-level names of the modules that these files import, anywhere in them; relative imports aside."""
    modules: set[str] = set()
    for path in files:
        try:
            tree = ast.parse(Path(path).read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules.add(node.module.partition(".")[0])
    return modules
