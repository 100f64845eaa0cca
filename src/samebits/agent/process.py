"""samebits inside the user's process: treats factors, witnesses, and starts the recording when torch is imported."""

from __future__ import annotations

import atexit
import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from samebits.agent.used import compiled_regions, what_was_used
from samebits.agent.variables import watch_variables
from samebits.base.processes import stack_of
from samebits.base.ranks import current_rank, rank_path
from samebits.base.sites import is_own_file, report_as_of, user_files, user_script
from samebits.factors.context import Witness
from samebits.factors.imports import when_loaded
from samebits.factors.lineage import Lineage
from samebits.factors.pinning import Treatment, adopt, line_of_refusal, status, too_late, treat
from samebits.factors.seed_calls import SeedCall, witness_seeds
from samebits.runfolder.notes import (
    Ended,
    Failed,
    Files,
    HandedOut,
    InEffect,
    Journal,
    Observed,
    Overridden,
    Refused,
    Seeded,
    Started,
    Unseen,
    Used,
    Witnessed,
)
from samebits.runfolder.spec import RunSpec, read_spec
from samebits.workspace.place import Place, read_place

OLDEST_TORCH = (2, 6)


def start(plan_path: str) -> None:
    """Called by sitecustomize, before any line of the user's."""
    plan = read_spec(plan_path)
    journal = Journal(Path(plan_path).parent)
    place = read_place(journal.folder)
    if place is not None and place.copy:
        _move_into(place)
    python = platform.python_version()
    journal.note(Started(sys.executable, python, tuple(sys.orig_argv), os.getpid(), stack_of()))
    path = rank_path() if plan.per_rank else ()
    treatment = treat(
        plan.settings,
        plan.seed,
        path,
        _reporter(journal) if plan.witness else None,
        lambda begins: journal.note(HandedOut(begins)),
    )
    adopt(treatment)
    if plan.witness:
        # Last, so that a seed is noted as it was given, before any factor has a say in it.
        witness_seeds(_seed_reporter(journal))
    agent = _Agent(plan, journal, treatment)
    if place is not None and place.home and plan.record:
        from samebits.agent.files import FilesWatched

        agent.files = FilesWatched(journal, place, plan.begins == "left")
        agent.files.install()
        watch_variables(journal)
    atexit.register(agent.safely(agent.at_end))
    when_loaded("torch", agent.safely(agent.meet_torch))


def _move_into(place: Place) -> None:
    """Tell places as those of the user's folder; where they have other paths here, import from the copy."""
    report_as_of(place.folder, place.home_of)
    if not place.root:
        return
    installed = sys.prefix + os.sep
    sys.path[:] = [
        path if path.startswith(installed) or is_own_file(path + os.sep) else place.led(path) for path in sys.path
    ]
    # What `pip install --editable` puts there names folders by their absolute paths (setuptools, "Development Mode").
    for finder in sys.meta_path:
        mapping = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(mapping, dict):
            mapping.update({name: place.led(path) for name, path in mapping.items() if isinstance(path, str)})


def _reporter(journal: Journal) -> Callable[[Witness], None]:
    def report(witness: Witness) -> None:
        journal.note(Witnessed(witness.factor, witness.site, witness.what, witness.within, witness.fix))

    return report


def _seed_reporter(journal: Journal) -> Callable[[SeedCall], None]:
    def report(call: SeedCall) -> None:
        journal.note(Seeded(call.what, call.value, call.site, ".".join(map(str, Lineage.of_process().path))))

    return report


def _unusable(torch: ModuleType) -> tuple[str, str]:
    """Why nothing can be recorded with this torch, and what to do; empty when it can."""
    version = str(getattr(torch, "__version__", ""))
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        place = getattr(torch, "__file__", None) or "this process"
        return f"the module torch of {place} is not PyTorch", "give a file of yours that is called torch another name"
    if tuple(map(int, numbers.groups())) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        return f"torch {version} is too old: samebits needs {oldest} or newer", f"pip install 'torch>={oldest}'"
    return "", ""


class _Agent:
    """samebits in one process of somebody else's program."""

    def __init__(self, plan: RunSpec, journal: Journal, treatment: Treatment) -> None:
        self.plan, self.journal, self.treatment = plan, journal, treatment
        self.pid = os.getpid()
        self.has_met_torch = False
        self.files: Any = None

    def safely(self, action: Callable[..., None]) -> Callable[..., None]:
        """A mistake of ours must not reach the program: it is noted, and the program goes on."""

        def act(*args: object) -> None:
            try:
                action(*args)
            except Exception as error:
                message = f"samebits failed inside the command: {type(error).__name__}: {error}"
                self.journal.note(Failed("internal", message, "please report this"))

        return act

    def meet_torch(self, torch: ModuleType) -> None:
        """Note what is in effect, and begin to record."""
        why, hint = _unusable(torch)
        if why:
            self.journal.note(Failed("no_torch", why, hint))
            return
        self.has_met_torch = True
        numpy = sys.modules.get("numpy")
        versions = {"python": platform.python_version(), "torch": torch.__version__, "cuda": torch.version.cuda}
        if getattr(torch.version, "hip", None):
            versions["hip"] = torch.version.hip
        versions["numpy"] = getattr(numpy, "__version__", None)
        factors = {one.name: InEffect(one.mode, one.observation.value) for one in status()}
        self.journal.note(Observed(versions, factors, current_rank(), user_script()))
        if self.plan.record:
            from samebits.agent.files import FilesWatched
            from samebits.agent.recorder import Recorder

            recorder = Recorder(self.journal.folder, self.plan, self.journal)
            recorder.install()
            recorder.stay_to_the_end()
            if self.files is None:
                self.files = FilesWatched(self.journal, Place("", ""))
                self.files.install()
            self.files.begin_recording(lambda: recorder.main.log.step)
            if self.plan.paced_from is not None and current_rank() in (None, 0):
                from samebits.agent.pacer import Pacer

                Pacer(self.journal.folder, self.plan.paced_from, recorder).install()

    def at_end(self) -> None:
        """Note what can only be known now. A forked child has nothing to say here that its parent does not."""
        if self.pid != os.getpid():
            return
        if self.has_met_torch:
            self._note_refusal()
            self._note_overridden()
            self._note_untreated()
            self._note_compiled()
            self._note_written()
            self.journal.note(Used(tuple(what_was_used())))
        elif "torch" in sys.modules and not _unusable(sys.modules["torch"])[0]:
            self._note_bypass()
        texts = () if self.files is None else tuple(self.files.texts())
        self.journal.note(Files(tuple(user_files()), user_script(), texts))
        self.journal.note(Ended(current_rank()))

    def _note_bypass(self) -> None:
        message = "the program's own import hook loaded torch past samebits"
        hint = "put that hook in place after `import torch`"
        self.journal.note(Failed("not_injected", message, hint))
        self.journal.note(Unseen(f"process {self.pid}: {message}"))

    def _note_refusal(self) -> None:
        error = getattr(sys, "last_value", None)
        refusal = "" if error is None else line_of_refusal(error)
        if refusal:
            sys.stderr.write(f"{refusal}\n")
            self.journal.note(Refused(str(error), refusal))

    def _note_untreated(self) -> None:
        for name, context in self.treatment.contexts.items():
            if context.failed and context.mode != "pinned":  # a failed pin is reported with those that did not take
                message = (
                    f"{name} could not be {context.mode if context.mode == 'varied' else 'witnessed'}: {context.failed}"
                )
                self.journal.note(Failed("internal", message, "please report this"))

    def _note_overridden(self) -> None:
        for name, why in too_late(self.treatment).items():
            self.journal.note(Overridden(name, why))

    def _note_written(self) -> None:
        names = [] if self.files is None else self.files.unseen()
        if names:
            self.journal.note(Unseen.written(names))

    def _note_compiled(self) -> None:
        graphs = compiled_regions()
        if graphs:
            regions = f"{graphs} compiled region{'s' if graphs > 1 else ''}"
            self.journal.note(Unseen(f"{regions} (what happens inside is one step to us)"))
