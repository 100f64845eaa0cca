"""The place of an operation: its pass, its module, the user's line, and the forward operation of a backward one."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from threading import get_ident
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.autograd import graph
from torch.utils.weak import WeakIdKeyDictionary

from samebits.accelerators.devices import kind_in_use
from samebits.base.sites import is_user_file
from samebits.runfolder.ops import Pass

# Above this frame lies the caller of backward; below it, what autograd itself calls.
_ENGINE: CodeType | None = getattr(getattr(graph, "_engine_run_backward", None), "__code__", None)
# So many nodes made between two operations belong to one of them; if there are more, another thread made them.
_MAX_GAP = 64
_MAX_NODES = 1 << 18

_library_files: set[str] = set()
_current_node: Any = torch._C._current_autograd_node
_next_node: Any = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]

Line = tuple[str, int, str]
NOWHERE: Line = ("", 0, "")


class OpPlace(NamedTuple):
    """The place to which one operation belongs; see `OpKind`."""

    pass_: Pass
    module: str
    line: Line
    backward_of: str


class _Forward(NamedTuple):
    op: str
    module: str
    line: Line


class Places:
    """Follows modules and autograd nodes as they come."""

    def __init__(self) -> None:
        # Whether a step of an optimizer is under way.
        self.is_stepping = False
        # Modules whose forward is under way: id and path.
        self._stack: list[tuple[int, str]] = []
        # The names of modules and parameters.
        self._names: MutableMapping[object, str] = WeakIdKeyDictionary()
        # By thread and number of the node: every thread numbers its nodes from 0 (c10/core: SequenceNumber).
        self._forward: dict[tuple[int, int], _Forward] = {}
        self._thread = get_ident()
        self._last_node: dict[int, int] = {self._thread: _next_node()}
        self._before: dict[int, _Forward | None] = {}
        self._backward_line: Line = NOWHERE

    # ---- modules

    def module_called(self, module: torch.nn.Module) -> None:
        self._stack.append((id(module), self._name_of(module)))

    def module_returned(self, module: object) -> None:
        # Where an exception left a forward, modules inside may never have come here.
        if any(number == id(module) for number, _ in self._stack):
            while self._stack.pop()[0] != id(module):
                pass

    def _name_of(self, module: torch.nn.Module) -> str:
        if module not in self._names:
            root, name = _outermost_module_of(module) or (module, type(module).__name__)
            for path, inner in [*root.named_modules(prefix=name), *root.named_parameters(prefix=name)]:
                self._names[inner] = path
        return str(self._names.get(module, ""))

    # ---- operations

    def backward_called(self, caller: FrameType | None) -> None:
        """Note the line that calls a backward: the thread that calls an accelerator's operations for it has no line."""
        self._backward_line = _line(caller, None) or NOWHERE

    def place_of(self, short: str, writes: bool, caller: FrameType | None) -> OpPlace:
        """Return the place of the operation called `short`, which the frame `caller` calls right now."""
        node = _current_node()
        if node is None:
            return self._in_forward(short, writes, caller)
        maker = self._maker(caller)
        forward = None if maker is None else self._forward.get((maker, node._sequence_nr()))
        inside = self._stack[-1][1] if self._stack else ""
        if forward is not None:
            place = OpPlace("backward", inside or forward.module, _line(caller, _ENGINE) or forward.line, forward.op)
        else:
            place = self._without_forward(node, inside, _line(caller, None) or self._backward_line)
        # A recomputed forward, and a backward that is itself differentiated, make nodes, too.
        self._note_nodes(short, place.module, place.line, writes)
        return place

    def _maker(self, caller: FrameType | None) -> int | None:
        """Return the thread that made the nodes whose backward runs here; None if it is unknown.

        On the CPU a backward runs in the thread that calls it, until it is nested so deeply that the engine goes on in
        a thread of its own. An accelerator has a thread for it, and a backward within the backward stays there.
        """
        thread = get_ident()
        if thread == self._thread or _is_below_engine(caller):
            return thread
        return self._thread if kind_in_use() else None

    def _without_forward(self, node: Any, module: str, line: Line) -> OpPlace:
        variable = getattr(node, "variable", None)
        if variable is None:
            return OpPlace("backward", module, line, node.name())
        name = self._names.get(variable) or ""
        return OpPlace("backward", name.rpartition(".")[0], line, f"gradient of {name or 'a leaf'}")

    def _in_forward(self, short: str, writes: bool, caller: FrameType | None) -> OpPlace:
        line = _line(caller, None) or NOWHERE
        module = self._stack[-1][1] if self._stack else ""
        makes_node = self._note_nodes(short, module, line, writes)
        if self.is_stepping and not self._stack and not makes_node:
            return OpPlace("optimizer", module, line, "")
        return OpPlace("forward" if module or makes_node else "none", module, line, "")

    def _note_nodes(self, op: str, module: str, line: Line, writes: bool) -> bool:
        """Assign the nodes made since the operation before to this operation; return whether there are any."""
        following: int = _next_node()
        thread = get_ident()
        count = following - self._last_node.get(thread, max(0, following - 1))
        if count > 0:
            self._last_node[thread] = following
            if len(self._forward) > _MAX_NODES:
                self._forward.clear()
            forward = self._forward[thread, following - 1] = _Forward(op, module, line)
            # An in-place operation on a view makes one more node after it is done.
            gap = self._before.get(thread) or forward
            for number in range(following - min(count, _MAX_GAP), following - 1):
                self._forward[thread, number] = gap
        self._before[thread] = _Forward(op, module, line) if writes else None
        return count > 0


def _is_below_engine(frame: FrameType | None) -> bool:
    """Whether this thread has called a backward, and is inside it."""
    while frame is not None:
        if frame.f_code is _ENGINE:
            return True
        frame = frame.f_back
    return False


def _line(frame: FrameType | None, stop: CodeType | None) -> Line | None:
    """Return the user's line nearest to `frame`, looking no further than a frame that runs `stop`; None without one."""
    while frame is not None:
        code = frame.f_code
        if code is stop:
            return None
        path = code.co_filename
        # This runs for every frame below every operation, so files of libraries are remembered to spare a call.
        if path not in _library_files:
            if is_user_file(path):
                return path, frame.f_lineno, getattr(code, "co_qualname", code.co_name)
            if not path.startswith("<"):
                _library_files.add(path)
        frame = frame.f_back
    return None


def _outermost_module_of(module: torch.nn.Module) -> tuple[torch.nn.Module, str] | None:
    """Return the outermost module that holds this one, and the name that it has where it is called from."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            for name, root in _modules_in(frame):
                if any(inner is module for inner in root.modules()):
                    return root, name
        frame = frame.f_back
    return None


def _modules_in(frame: FrameType) -> Iterator[tuple[str, torch.nn.Module]]:
    # Attributes are read from dictionaries only: no property or lazy attribute of the user's must run for our sake.
    for name, value in [*frame.f_locals.items(), *frame.f_globals.items()]:
        if isinstance(value, torch.nn.Module):
            yield name, value
        elif name == "self" and hasattr(value, "__dict__"):
            yield from (
                (f"self.{key}", inner) for key, inner in vars(value).items() if isinstance(inner, torch.nn.Module)
            )
