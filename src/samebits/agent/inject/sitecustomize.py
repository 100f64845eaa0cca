# ruff: noqa: UP031, UP036
# mypy: ignore-errors
"""Starts samebits inside a Python process of the user's command, then imports the sitecustomize that this one hides.

The syntax is one that any Python can read, so that an interpreter too old for samebits can say so.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _start(plan):
    try:
        if sys.version_info < (3, 10):
            raise RuntimeError("samebits needs Python 3.10 or newer")
        if "samebits" not in sys.modules:
            _load(os.path.dirname(os.path.dirname(_HERE)))
        from samebits.agent.process import start

        start(plan)
    except Exception as error:  # the user's program has to run whatever happens here
        _complain(plan, error)


def _load(package):
    # From the folder that this file is in, not from sys.path: the interpreter may have another samebits, or none.
    from importlib.util import module_from_spec, spec_from_file_location

    path = os.path.join(package, "__init__.py")
    spec = spec_from_file_location("samebits", path, submodule_search_locations=[package])
    module = module_from_spec(spec)
    sys.modules["samebits"] = module
    spec.loader.exec_module(module)


def _complain(plan, error):
    import json

    who = "%s (Python %s)" % (sys.executable, ".".join(str(part) for part in sys.version_info[:3]))
    too_old = sys.version_info < (3, 10)
    why = str(error) if too_old else "%s: %s" % (type(error).__name__, error)
    hint = "run the command with a newer Python" if too_old else "please report this"
    notes = [
        {"note": "error", "kind": "not_injected", "message": "samebits could not start in %s: %s" % (who, why)},
        {"note": "unseen", "what": "a process of %s, in which samebits could not start" % who},
    ]
    notes[0]["hint"] = hint
    try:
        with open(os.path.join(os.path.dirname(plan), "journal.failed.%d.jsonl" % os.getpid()), "a") as file:
            file.write("".join(json.dumps(note) + "\n" for note in notes))
    except (IOError, OSError):  # noqa: UP024 - two things in Python 2
        pass


def _hand_on():
    """Import the sitecustomize that would have been imported without us, and raise what it raises.

    Where there is none, the ImportError makes `site` and the import system forget that this one was imported.
    """
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
    del sys.modules["sitecustomize"]
    try:
        import sitecustomize  # noqa: F401
    finally:
        sys.path.insert(0, _HERE)


# A program that imports sitecustomize itself runs this once more.
if os.environ.get("SAMEBITS_PLAN") and "samebits.agent.process" not in sys.modules:
    _start(os.environ["SAMEBITS_PLAN"])
_hand_on()
