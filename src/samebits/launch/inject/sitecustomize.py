# ruff: noqa: UP031
# mypy: ignore-errors
"""Starts samebits inside a Python process of the user's command, then hands on to the sitecustomize it stands before.

Kept to syntax that any Python 3 can read, so that an interpreter too old for samebits can say so.
"""

import os
import sys


def _start(plan):
    here = os.path.dirname(os.path.abspath(__file__))
    package = os.path.dirname(os.path.dirname(here))
    try:
        if "samebits" not in sys.modules:
            _load(package)
        from samebits.launch.child import start

        start(plan)
    except Exception as error:  # the user's program has to run whatever happens here
        _complain(plan, error)


def _load(package):
    # From its own place, not from sys.path: the interpreter of the command may have another samebits, or none.
    from importlib.util import module_from_spec, spec_from_file_location

    place = os.path.join(package, "__init__.py")
    spec = spec_from_file_location("samebits", place, submodule_search_locations=[package])
    module = module_from_spec(spec)
    sys.modules["samebits"] = module
    spec.loader.exec_module(module)


def _complain(plan, error):
    import json

    version = ".".join(str(part) for part in sys.version_info[:3])
    message = "samebits could not start in %s (Python %s): %s: %s" % (
        sys.executable,
        version,
        type(error).__name__,
        error,
    )
    hint = "samebits needs Python 3.10 or newer" if sys.version_info < (3, 10) else "please report this"
    note = {"note": "error", "kind": "not_injected", "message": message, "hint": hint}
    try:
        with open(os.path.join(os.path.dirname(plan), "journal.failed.%d.jsonl" % os.getpid()), "a") as file:
            file.write(json.dumps(note) + "\n")
    except OSError:
        pass


def _hand_on():
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    others = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get("SAMEBITS_PLAN"):
    _start(os.environ["SAMEBITS_PLAN"])
_hand_on()
