"""samebits inside the user's process: treats factors, witnesses, and starts the recording when torch is imported."""

from __future__ import annotations

import atexit
import os
import platform
import sys
from pathlib import Path
from typing import Any

from samebits.factors.base import Witness
from samebits.factors.imports import when_loaded
from samebits.factors.sites import user_files
from samebits.launch.plan import RunPlan, read_plan
from samebits.pinning import Treatment, adopt, current_rank, line_of_refusal, rank_path, status, too_late, treat
from samebits.record.journal import Journal


def start(plan_path: str) -> None:
    """Called by sitecustomize, before any line of the user's."""
    plan = read_plan(plan_path)
    journal = Journal(Path(plan_path).parent)
    journal.note(
        "start", argv=sys.orig_argv, python=platform.python_version(), executable=sys.executable, pid=os.getpid()
    )
    path = rank_path() if plan.per_rank else ()
    treatment = treat(plan.settings, plan.seed, path, _reporter(journal) if plan.witness else None)
    adopt(treatment)
    atexit.register(_at_end, os.getpid(), journal, treatment)
    when_loaded("torch", lambda torch: _torch_is_there(torch, plan, journal))


def _reporter(journal: Journal) -> Any:
    def report(witness: Witness) -> None:
        site = None if witness.site is None else {**witness.site.as_dict(), "source": witness.site.source}
        journal.note("witness", factor=witness.factor, what=witness.what, site=site, seeded=witness.seeded)

    return report


def _torch_is_there(torch: Any, plan: RunPlan, journal: Journal) -> None:
    numpy = sys.modules.get("numpy")
    versions = {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda}
    versions["numpy"] = getattr(numpy, "__version__", None)
    factors = {s.name: {"mode": s.mode, "value": s.observation.value} for s in status()}
    journal.note("observed", versions=versions, factors=factors, rank=current_rank())
    if plan.record:
        from samebits.record.streams import Recorder, Wish

        wish = Wish(plan.stop_after, plan.keep_step, plan.keep_streams)
        Recorder(Path(journal.folder), wish, journal).install()


def _at_end(pid: int, journal: Journal, treatment: Treatment) -> None:
    if pid != os.getpid():
        return
    error = getattr(sys, "last_value", None)
    refusal = "" if error is None else line_of_refusal(error)
    if refusal:
        sys.stderr.write(f"{refusal}\n")
        journal.note("refused", message=str(error), where=refusal)
    for name, why in too_late(treatment).items():
        journal.note("overridden", factor=name, why=why)
    _note_compiled(journal)
    journal.note("files", files=user_files())
    journal.note("end", rank=current_rank())


def _note_compiled(journal: Journal) -> None:
    dynamo = sys.modules.get("torch._dynamo.utils")
    graphs = 0 if dynamo is None else dynamo.counters["stats"]["unique_graphs"]
    if graphs:
        journal.note(
            "unseen",
            what=f"{graphs} compiled region{'s' if graphs > 1 else ''} (what happens inside is one step to us)",
        )
