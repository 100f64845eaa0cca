"""Keeps the state that a killed run had after its save, compares a resumed run's state with it, and gives it back."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from traceback import walk_stack
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from samebits.agent.events import Event
from samebits.agent.fetches import Fetches
from samebits.agent.ops.operands import read_kept_tensors
from samebits.agent.slots import Slot, slots_of
from samebits.base.sites import is_user_file
from samebits.bits.digest import digests, is_evidence
from samebits.rng.packing import PackingError, pack, unpack
from samebits.runfolder.notes import Lacks
from samebits.runfolder.spec import Moment, Restoration
from samebits.runfolder.tensors import write_tensors

if TYPE_CHECKING:
    from _typeshed import TraceFunction

    from samebits.agent.recorder import Recorder

# For how many lines and seconds after a save states are kept: the resumed run comes to one of the first, or to none.
MOST_LINES, MOST_SECONDS = 16, 5.0
# How many characters of a value are reported.
MOST_WORDS = 40
# If the length of one of these differs, it was collected on the way, as a replay buffer is.
_GROWING = ("counter", "carried", "averaged")
Plain = dict[str, tuple[str, Any]]


def kept_at(folder: Path, rank: int) -> Path:
    """Return the path where the state of a rank is kept; its tensors are next to it."""
    return folder / f"kept.rank{rank}.json"


class _LineFollower(ABC):
    """Notices when the program comes to a line of the user's, or calls a model: there states of runs can be compared.

    Lines are followed in the main thread alone, and only between a save or a load and the call of a model.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.is_open = False
        recorder.on(Event.CALLED, lambda *_: self.called("call"), first=True)

    @abstractmethod
    def at_moment(self, moment: str, frame: FrameType | None) -> None:
        """Handle that the program reaches `moment`."""

    def open(self) -> None:
        """Start following lines."""
        if threading.get_ident() == self.recorder.thread:
            self.is_open, self._pid = True, os.getpid()
            self._follow_lines()

    def close(self) -> None:
        """Stop following lines."""
        if self.is_open:
            self.is_open = False
            sys.settrace(None)

    def called(self, what: str) -> None:
        """Handle the call of a model or the step of an optimizer, after which no lines are followed."""
        if self.is_open and threading.get_ident() == self.recorder.thread:
            self._safely(what, sys._getframe())
            self.close()

    def _follow_lines(self) -> None:
        if sys.gettrace() is None:
            for frame, _ in walk_stack(sys._getframe()):
                if is_user_file(frame.f_code.co_filename):
                    frame.f_trace = self._line
            sys.settrace(self._function)

    def _function(self, frame: FrameType, event: str, arg: object) -> TraceFunction | None:
        if not self.is_open or os.getpid() != self._pid:
            sys.settrace(None)
            return None
        code = frame.f_code
        return self._line if code.co_name.isidentifier() and is_user_file(code.co_filename) else None

    def _line(self, frame: FrameType, event: str, arg: object) -> TraceFunction | None:
        if event == "line" and self.is_open and os.getpid() == self._pid:
            self._safely(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}", frame)
        return self._line

    def _safely(self, moment: str, frame: FrameType | None) -> None:
        try:
            with self.recorder.lock:
                self.at_moment(moment, frame)
        except Exception as error:  # states may be of any sort: one that cannot be kept is not given back
            self.is_open = False
            self.recorder.note_once(f"a state at the save, which could not be kept: {type(error).__name__}: {error}")


class StateKeeper(_LineFollower):
    """Keeps what the program holds after a save, line by line up to the next call of a model; the last save counts."""

    def open(self) -> None:
        self.moments: dict[str, Plain] = {}
        self.tensors: dict[str, torch.Tensor] = {}
        self.began = time.monotonic()
        self.at_moment("save", sys._getframe())
        super().open()

    def at_moment(self, moment: str, frame: FrameType | None) -> None:
        is_late = len(self.moments) > MOST_LINES or time.monotonic() - self.began > MOST_SECONDS
        if moment not in self.moments and not (is_late and ":" in moment):
            self.moments[moment] = as_plain(slots_of(self.recorder, frame).values(), self.tensors)

    def close(self) -> None:
        if self.is_open:
            super().close()
            write(kept_at(self.recorder.journal.folder, self.recorder.main.log.rank), self.moments, self.tensors)


class StateRestorer(_LineFollower):
    """Compares what a resumed run holds with what was kept, and gives back what was asked for, each at its moment.

    Lines are counted from the last load on, batches from the beginning of the process.
    """

    def __init__(self, recorder: Recorder, restored: Restoration, fetches: Fetches) -> None:
        super().__init__(recorder)
        self.restored, self.fetches = restored, fetches
        self.is_done = self.is_compared = False
        self.times, self.passed = 0, set[str]()
        self.lacks: dict[str, Lacks] | None = None
        path = kept_at(Path(restored.folder), recorder.main.log.rank)
        self.moments, self.tensors = read(path) if path.exists() else ({}, {})
        recorder.on(Event.ITERATES, lambda _: self.at("iter"), first=True)
        recorder.on(Event.FETCHES, lambda own: self.at("batch", own))
        recorder.on(Event.STEP_BEGINS, lambda *_: self.called("step"))

    def loaded(self) -> None:
        """Begin to compare anew, after something was loaded before the first step that counts, or as that begins."""
        if self.recorder.main.log.step <= self.restored.undone:
            self.is_compared, self.lacks = False, None
            self.passed.clear()
            self.times += 1
            self.open()

    def called(self, what: str) -> None:
        # Where no load was seen, states are compared at the first call.
        self.is_open |= not self.is_compared
        super().called(what)

    def at_moment(self, moment: str, frame: FrameType | None) -> None:
        kept = self.moments.get(moment)
        if kept is None or self.is_compared or moment in self.passed:
            return
        # What was kept is from the first time; a line of a loop may come a thousand times before the first step.
        self.passed.add(moment)
        slots = slots_of(self.recorder, frame)
        if not self.restored.slots:
            # Only what is lacking at every moment counts: what a script restores on its way is right by the last.
            lacks = {lack.path: lack for lack in self._lacks(kept, as_plain(slots.values(), {}), slots)}
            self.lacks = lacks if self.lacks is None else {path: lacks[path] for path in self.lacks if path in lacks}
            return
        self.is_compared = True
        for path in self.restored.slots:
            put = slots[path].put if path in slots else None
            if path in kept and put is not None:
                with suppress(PackingError):
                    put(self._value(kept[path]))
        self.close()

    def close(self) -> None:
        super().close()
        if self.lacks is not None:
            for lack in self.lacks.values():
                self.recorder.journal.note(lack)
            self.is_compared, self.lacks = True, None

    def _lacks(self, kept: Plain, now: Plain, slots: Mapping[str, Slot]) -> Iterable[Lacks]:
        for path, (state, then) in kept.items():
            here = now[path][1] if path in now else then
            if json.dumps(here) != json.dumps(then):
                # Not so for optimizers, which hold nothing before they step.
                has_grown = then.get("length") != here.get("length") and state in _GROWING
                words, rank = (_words(then), _words(here)), self.recorder.main.log.rank
                can_put = slots[path].put is not None
                yield Lacks(path, "replay" if has_grown else state, *words, can_put, rank, self.times)

    def _value(self, kept: tuple[str, Any]) -> Any:
        value = _mapped(kept[1]["value"], lambda sign: self.tensors[sign["<tensor>"]].to(sign["device"]))
        return unpack(value, copies=True)

    def at(self, moment: Moment, iterator: Any = None) -> None:
        """Give generators back, or skip to the place in an epoch, at the moment that was asked for."""
        asked = self.restored
        if self.is_done or moment != asked.moment or (moment == "batch" and self.fetches.count < asked.batch):
            return
        self.is_done = True
        if asked.skip:
            self.fetches.skip(iterator, asked.skip)
            return
        kept, slots = self.moments.get("save", {}), slots_of(self.recorder, sys._getframe())
        for path, slot in slots.items():
            is_asked = not asked.names or path in asked.names
            if slot.state == "generators" and path in kept and is_asked and slot.put is not None:
                slot.put(self._value(kept[path]))


# ---- as plain data ---------------------------------------------------------------------------------------------------


def as_plain(slots: Iterable[Slot], tensors: dict[str, torch.Tensor]) -> Plain:
    """Return, by path, state and value, with digests in place of tensors; the tensors are added to `tensors`."""
    packed: list[tuple[Slot, object]] = []
    for slot in slots:
        with suppress(PackingError, RecursionError, ValueError):
            packed.append((slot, pack(slot.value)))
    by_id: dict[int, torch.Tensor] = {}
    for _, plain in packed:
        _mapped(plain, lambda tensor: by_id.setdefault(id(tensor), tensor))
    held = {number: tensor for number, tensor in by_id.items() if is_evidence(tensor)}
    labels = dict(zip(held, (f"{digest:x}" for digest in digests(list(held.values()))), strict=True))
    for number, label in labels.items():
        if label not in tensors:
            tensors[label] = held[number].detach().clone()

    def sign(tensor: torch.Tensor) -> dict[str, str]:
        return {"<tensor>": labels.get(id(tensor), ""), "device": str(tensor.device)}

    return {slot.path: (slot.state, {"value": _mapped(plain, sign), **_length(slot.value)}) for slot, plain in packed}


def _length(value: object) -> dict[str, int]:
    """Return the length of a collection."""
    return {"length": len(value)} if isinstance(value, list | deque | set | dict) else {}


def _mapped(plain: Any, put: Callable[[Any], Any]) -> Any:
    """Return plain data with `put` applied to every tensor, or to every sign that replaces a tensor."""
    if isinstance(plain, torch.Tensor) or (isinstance(plain, dict) and "<tensor>" in plain):
        return put(plain)
    if isinstance(plain, dict):
        return {key: _mapped(item, put) for key, item in plain.items()}
    return [_mapped(item, put) for item in plain] if isinstance(plain, list) else plain


def _words(plain: Any) -> str:
    """Return a value in few words; empty for a long value, and for one that is neither number nor text."""
    value, length = plain["value"], plain.get("length")
    if length is not None:
        return f"{length} items"
    text = "" if isinstance(value, dict) else repr(value)
    return text if len(text) <= MOST_WORDS else ""


def write(path: Path, moments: Mapping[str, Plain], tensors: Mapping[str, torch.Tensor]) -> None:
    """Write plain data, with the tensors next to it: saving both together would call `torch.save`, which is watched."""
    path.write_text(json.dumps(moments), encoding="utf-8")
    write_tensors(path.with_suffix(".safetensors"), tensors.items())


def read(path: Path) -> tuple[dict[str, Plain], Mapping[str, torch.Tensor]]:
    """Return what `write` wrote; nothing in it is run."""
    return json.loads(path.read_text(encoding="utf-8")), read_kept_tensors(path)
