"""samebits inside the user's process: treats factors, witnesses, and starts the recording when torch is imported."""

from __future__ import annotations

import atexit
import dis
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType, ModuleType

from samebits.agent.process_end import compiled_regions, notes_of_use
from samebits.agent.taps.files import FilesWatched
from samebits.agent.taps.messages import keep_messages
from samebits.base.processes import stack_of
from samebits.base.ranks import current_rank, rank_path
from samebits.base.sites import is_own_file, is_user_file, report_as_of, user_files, user_script, without_own_frames
from samebits.factors.context import Witness
from samebits.factors.imports import when_loaded
from samebits.factors.lineage import Lineage
from samebits.factors.pinning import Treatment, adopt, failed_pins, line_of_refusal, status, treat
from samebits.factors.seed_calls import SeedCall, witness_seeds
from samebits.runfolder.folder import RunFolder
from samebits.runfolder.notes import (
    Ended,
    Failed,
    Files,
    HandedOut,
    InEffect,
    Journal,
    Note,
    Observed,
    Overridden,
    Refused,
    Seeded,
    Started,
    Unseen,
    Variable,
    Witnessed,
)
from samebits.runfolder.spec import RunSpec, read_spec
from samebits.workspace.place import Place, read_place

OLDEST_TORCH = (2, 6)
# OpenMP reads this when torch loads it; the case of letters does not matter there, and the capitals tell ours from the
# user's own.
WAIT_POLICY, IDLE = "OMP_WAIT_POLICY", "PASSIVE"
# Methods in which a mapping looks up one key; going through all of its keys is no such look-up.
_ASKING = ("get", "getenv", "__contains__", "setdefault")
_SUBSCRIPTS = ("BINARY_SUBSCR", "BINARY_OP")


def start(plan_path: str) -> None:
    """Start samebits in this process; sitecustomize calls it, before any line of the user's runs."""
    plan = read_spec(plan_path)
    journal = Journal(Path(plan_path).parent)
    place = read_place(journal.folder) or Place("", "")
    if place.copy:
        _move_into(place)
    if plan.shares_cores:
        _wait_idly()
    journal.note(Started(sys.executable, tuple(sys.orig_argv), os.getpid(), stack_of()))
    Lineage.of_process().enter_run(journal.folder / "programs", (place.files, place.root, place.temporary))
    path = rank_path() if plan.per_rank else ()

    def witnessed(witness: Witness) -> None:
        journal.note(Witnessed(**vars(witness)))

    def seeded(call: SeedCall) -> None:
        journal.note(Seeded(**vars(call), process=".".join(map(str, Lineage.of_process().path))))

    witness = witnessed if plan.witness else None
    treatment = treat(plan.settings, plan.seed, path, witness, lambda begins: journal.note(HandedOut(begins)))
    adopt(treatment)
    if plan.witness:
        # Last, so that a seed is noted as the program gave it, before any factor changes it.
        witness_seeds(seeded)
    files = FilesWatched(journal, place, plan.begins == "left") if plan.record else None
    if files is not None:
        files.install()
        keep_messages(RunFolder(journal.folder).messages_of(rank_path()))
        if place.home:
            _watch_variables(journal, place)
    agent = _Agent(plan, journal, treatment, files)
    atexit.register(agent.safely(agent.at_end))
    when_loaded("torch", agent.safely(agent.meet_torch))


def _wait_idly() -> None:
    """Let threads that wait for one another sleep: while they spin, the runs made at the same time get nothing done.

    The program does not see the variable that says so; one that the user has set stays.
    """
    if os.environ.get(WAIT_POLICY, IDLE) == IDLE:
        os.environ.pop(WAIT_POLICY, None)  # a process that started this one has handed it on
        os.putenv(WAIT_POLICY, IDLE)


def _move_into(place: Place) -> None:
    """Report paths as those of the user's folder; where the copy has other paths, import from the copy."""
    report_as_of(place.folder, place.user_path)
    if not place.root:
        return
    installed = sys.prefix + os.sep
    sys.path[:] = [
        path if path.startswith(installed) or is_own_file(path + os.sep) else place.redirect(path) for path in sys.path
    ]
    # Finders of `pip install --editable` name folders by their absolute paths (setuptools, "Development Mode").
    for finder in sys.meta_path:
        mapping = getattr(sys.modules.get(getattr(finder, "__module__", "")), "MAPPING", None)
        if isinstance(mapping, dict):
            mapping.update({name: place.redirect(path) for name, path in mapping.items() if isinstance(path, str)})


def _watch_variables(journal: Journal, place: Place) -> None:
    """Note every name that the program's own lines ask `os.environ` for, once: with a digest, never with the value."""
    kind, noted = type(os.environ), set[str]()
    original = kind.__getitem__

    def asked(variables: os._Environ[str], name: str) -> str:
        with suppress(Exception):
            if name not in noted and _is_asked_for(sys._getframe(1)):
                noted.add(name)
                value = variables.get(name)
                journal.note(Variable.of(name, None if value is None else place.user_value(value)))
        with without_own_frames:
            return original(variables, name)

    kind.__getitem__ = asked  # type: ignore[method-assign]


def _is_asked_for(frame: FrameType | None) -> bool:
    is_direct = True
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        if frame.f_code.co_name not in _ASKING:
            return False
        frame, is_direct = frame.f_back, False
    if frame is None:
        return False
    return not is_direct or dis.opname[frame.f_code.co_code[frame.f_lasti]] in _SUBSCRIPTS


def _unusable(torch: ModuleType) -> tuple[str, str]:
    """Return why nothing can be recorded with this torch, and what to do about it; both empty when it can."""
    version = str(getattr(torch, "__version__", ""))
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None:
        origin = getattr(torch, "__file__", None) or "this process"
        return f"the module torch of {origin} is not PyTorch", "give a file of yours that is called torch another name"
    if tuple(map(int, numbers.groups())) < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        return f"torch {version} is too old: samebits needs {oldest} or newer", f"pip install 'torch>={oldest}'"
    return "", ""


class _Agent:
    """samebits in one process of the user's program."""

    def __init__(self, plan: RunSpec, journal: Journal, treatment: Treatment, files: FilesWatched | None) -> None:
        self.plan, self.journal, self.treatment, self.files = plan, journal, treatment, files
        self.pid = os.getpid()
        self.has_met_torch = False

    def safely(self, action: Callable[..., None]) -> Callable[..., None]:
        """Return the action, wrapped so that a mistake of ours in it is noted and does not reach the program."""

        def act(*args: object) -> None:
            try:
                action(*args)
            except Exception as error:
                message = f"samebits failed inside the command: {type(error).__name__}: {error}"
                self.journal.note(Failed("internal", message, "please report this"))

        return act

    def meet_torch(self, torch: ModuleType) -> None:
        """Note which factors are in effect, and begin to record."""
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
        factors = {factor.name: InEffect(factor.mode, factor.observation.value) for factor in status()}
        self.journal.note(Observed(versions, factors, current_rank(), user_script()))
        if self.files is not None:
            self._begin_recording(self.files)

    def _begin_recording(self, files: FilesWatched) -> None:
        from samebits.agent.events import Event
        from samebits.agent.recorder import Recorder

        recorder = Recorder(self.plan, self.journal)
        if self.plan.resume is not None:
            from samebits.agent.interruption import Interruption

            Interruption(recorder, self.plan.resume)
        recorder.install()
        recorder.stay_to_the_end()
        files.begin_recording(lambda: recorder.main.log.step)
        recorder.on(Event.STEP_ENDS, files.growing.step_ends)
        if self.plan.paced_from is not None and current_rank() in (None, 0):
            from samebits.agent.pacer import Pacer

            Pacer(self.plan.paced_from, recorder)

    def at_end(self) -> None:
        """Note what is known only when the process ends. A forked child notes nothing: its parent notes all of it."""
        if self.pid != os.getpid():
            return
        for note in self._last_notes():
            self.journal.note(note)

    def _last_notes(self) -> Iterator[Note]:
        if self.has_met_torch:
            error = getattr(sys, "last_value", None)
            refusal = "" if error is None else line_of_refusal(error)
            if refusal:
                sys.stderr.write(f"{refusal}\n")
                yield Refused(str(error), refusal)
            yield from (Overridden(name, why) for name, why in failed_pins(self.treatment).items())
            for name, context in self.treatment.contexts.items():
                if context.failed and context.mode != "pinned":  # a failed pin is among the `Overridden`
                    what = "varied" if context.mode == "varied" else "witnessed"
                    message = f"{name} could not be {what}: {context.failed}"
                    yield Failed("internal", message, "please report this")
            if graphs := compiled_regions():
                regions = f"{graphs} compiled region{'s' if graphs > 1 else ''}"
                yield Unseen(f"{regions} (what happens inside is one step to us)")
            if self.files is not None and (names := self.files.unseen()):
                yield Unseen.written(names)
            if self.files is not None and (logs := self.files.logs()):
                yield logs
            yield from notes_of_use()
        elif "torch" in sys.modules and not _unusable(sys.modules["torch"])[0]:
            message = "the program's own import hook loaded torch past samebits"
            yield Failed("not_injected", message, "put that hook in place after `import torch`")
            yield Unseen(f"process {self.pid}: {message}")
        texts = () if self.files is None else tuple(self.files.texts())
        yield Files(tuple(user_files()), user_script(), texts)
        yield Ended()
