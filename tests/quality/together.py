"""Runs scripts as if each had been started by itself, in forked children of one process that has imported torch.

    python together.py CASE/clean.py …

What a process does before it imports torch takes longer than most of these trainings.
"""

import atexit
import os
import runpy
import sys
from pathlib import Path

import torch._dynamo  # noqa: F401 - once for all, with what the first optimizer would import


def main() -> None:
    for script in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            run(Path(script))
        _, status = os.waitpid(child, 0)
        if status:
            sys.exit(f"{script} ended with {os.waitstatus_to_exitcode(status)}")


def run(script: Path) -> None:
    os.chdir(script.parent)
    sys.argv = [script.name]
    sys.path[0] = os.getcwd()
    runpy.run_path(script.name, run_name="__main__")
    atexit._run_exitfuncs()
    sys.stdout.flush()
    # Taking the interpreter apart costs a second in each child: all that it shares with the parent is written to.
    os._exit(0)


main()
