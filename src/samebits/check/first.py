"""The first question: do runs agree that are left alone, and runs in which harmless things are changed?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from samebits.check import plan as plans
from samebits.check.lab import Lab, parts, stopping_after
from samebits.check.plan import Request
from samebits.check.trouble import trouble_with
from samebits.check.verdict import Parting, Run
from samebits.errors import SamebitsError
from samebits.factors.catalog import find
from samebits.lint.hash_order import find_hash_order
from samebits.recording.journal import read_notes
from samebits.sites import Site, is_user_file

LOOK_AGAIN_STEPS = 10
LOOK_AGAIN_RUNS = 2


def first_parting(request: Request, lab: Lab) -> Parting | SamebitsError | None:
    """Where the first runs part; None when they agree; an error when they cannot be judged."""
    wanted = plans.first_runs(request)
    if request.jobs > 1:
        runs = lab.run_all(wanted)
        return trouble_with(runs) or earliest(runs) or _look_again(request, lab, runs)
    runs = [lab.run(wanted[0])]
    for plan in wanted[1:]:
        trouble = trouble_with(runs, final=False)
        if trouble is not None:
            return trouble
        runs.append(lab.run(plan))
        parting = earliest(runs)
        if parting is not None:
            return trouble_with(runs) or parting
    return trouble_with(runs) or _look_again(request, lab, runs)


def earliest(runs: Sequence[Run]) -> Parting | None:
    """Where the first of these runs and another one part soonest."""
    found = [Parting(runs[0].id, run.id, place) for run in runs[1:] if (place := parts(runs[0], run)) is not None]
    return min(found, key=lambda parting: parting.divergence.position, default=None)


def _look_again(request: Request, lab: Lab, runs: Sequence[Run]) -> Parting | None:
    """Small sets often come out in the same order by luck: where the code orders a set, other hash seeds are tried."""
    chosen = [name for name in request.varied if find(name).read_in_code]
    if not chosen or lab.left < LOOK_AGAIN_RUNS or not hash_lines(runs[0]):
        return None
    others = [name for name in request.varied if name not in chosen]
    for variant in range(request.runs, request.runs + LOOK_AGAIN_RUNS):
        plan = replace(plans.varied_run(request, variant, leave=others), role=f"{chosen[0]} varied")
        run = lab.run(stopping_after(plan, LOOK_AGAIN_STEPS))
        place = parts(runs[0], run)
        if place is not None:
            return Parting(runs[0].id, run.id, place)
    return None


def hash_lines(run: Run) -> list[Site]:
    """The lines of the user's code that let the hash order in, likeliest first; found by reading, not by running."""
    files = {path for note in read_notes(run.path, "files") for path in note["files"]}
    found = find_hash_order(sorted(path for path in files if is_user_file(path)))
    return [Site(finding.path, finding.line, finding.function) for finding in found]
