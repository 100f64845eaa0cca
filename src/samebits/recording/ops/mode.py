"""One dispatch mode that writes down every operation of a window of steps.

What it must never do: change bits, draw, wait for a device once per tensor, or keep a tensor alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack, _pop_mode, _push_mode

from samebits.recording.digest import Pending, is_evidence, pending, results
from samebits.recording.digest.parts import LOW_ADDRESS
from samebits.recording.generators import digest_of_state
from samebits.recording.log import Log
from samebits.recording.ops.call import Call, exact, kind_of, tensors_in
from samebits.recording.ops.closeup import CloseUp, Taken
from samebits.recording.ops.evidence import evidence_of
from samebits.recording.ops.memory import Memory
from samebits.recording.ops.places import Places
from samebits.recording.ops.schemas import OpSchema, schema_of
from samebits.recording.ops.table import OpRow, OpSheet
from samebits.recording.wish import OpWish

_MASK = (1 << 64) - 1
# How many operations may wait for digests that lie on an accelerator.
ROWS_WAITING = 256

_active_mode: Any = torch._C._get_dispatch_mode
_Key: Any = torch._C._TorchDispatchModeKey
_FAKE, _FUNCTIONAL, _PROXY = _Key.FAKE, _Key.FUNCTIONAL, _Key.PROXY
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class _Seen(NamedTuple):
    """A call before it is made: what it read, under which names, and what has to be kept of it."""

    call: Call
    names: list[str]
    evidence: list[int]
    taken: Taken | None


class OpRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operations of this process.

    Args:
        log: where rows of this process go.
        wish: which operations.
    """

    def __init__(self, log: Log, wish: OpWish) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.log, self.wish = log, wish
        self.places = Places()
        self.memory = Memory()
        self.sheet = OpSheet()
        self.closeup = CloseUp(log, wish)
        self.is_on = False
        self._made = 0
        self._kinds: dict[tuple[Any, ...], int] = {}
        self._rows: list[tuple[int, list[int]]] = []
        self._waiting: list[tuple[list[int], Sequence[int], Pending]] = []
        self._handles: list[Any] = []
        self._unseen: set[str] = set()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """torch.compile goes on as if this mode were not there; what it made is one invisible step to us."""
        return True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """The same, as older versions ask it."""
        return True

    # ---- the window

    def begin_step(self, step: int) -> None:
        """Turn on or off, as this step asks for."""
        wanted = self.wish.first <= step and (self.wish.last is None or step <= self.wish.last)
        if wanted and not self.is_on:
            self.sheet.begin_at(step)
            self._switch_on()
        elif self.is_on and not wanted:
            self._switch_off()

    def end_step(self) -> None:
        """The step is over; its operations go to disk."""
        if self.is_on:
            self._settle()
            self.sheet.end_step()
            self.write()

    def write(self) -> None:
        """Everything that waits goes to disk."""
        self._settle()
        if not self.sheet.is_empty:
            self.sheet.write(self.log.opened())

    def _switch_on(self) -> None:
        hooks = torch.nn.modules.module
        self._handles = [
            hooks.register_module_forward_pre_hook(self._module_called),
            hooks.register_module_forward_hook(self._module_returned, always_call=True),
        ]
        self.is_on = True
        self.__enter__()  # type: ignore[no-untyped-call]

    def _module_called(self, module: Any, args: Any) -> None:
        # Inside a compiled region this must vanish: the compiler folds the test and never looks further.
        if not torch.compiler.is_compiling():
            self._safely(self.places.module_called, module)

    def _module_returned(self, module: Any, args: Any, result: Any) -> None:
        if not torch.compiler.is_compiling():
            self._safely(self.places.module_returned, module)

    def _switch_off(self) -> None:
        self.is_on = False
        # The user's own modes may stand above this one, and stay.
        if self in _get_current_dispatch_mode_stack():
            above = []
            while (mode := _pop_mode()) is not self:
                above.append(mode)
            _push_mode(self)
            self.__exit__(None, None, None)
            for mode in reversed(above):
                _push_mode(mode)
        while self._handles:
            self._handles.pop().remove()

    def close(self) -> None:
        """No more operations; those of a step that was not finished are written too."""
        if self.is_on:
            self._switch_off()
            if not self.log.broken:
                self.write()

    def abandon(self) -> None:
        """No more operations, and nothing is written: a forked child leaves the parent what is the parent's."""
        if self.is_on:
            self._switch_off()

    @property
    def hook_ids(self) -> set[int]:
        return {handle.id for handle in self._handles}

    # ---- one operation

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _active_mode(_FAKE) or _active_mode(_FUNCTIONAL) or _active_mode(_PROXY):
            # Somebody traces with fake or functional tensors: no bits are made.
            return func(*args, **kwargs)
        if types and any(kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for kind in types):
            # A class with a dispatch of its own (DTensor, a fake tensor): what it calls inside comes by here again.
            return NotImplemented
        schema = schema_of(func)
        if schema.is_silent or self.log.broken or self._is_captured():
            return func(*args, **kwargs)
        seen = self._safely(self._before, func, args, kwargs)
        result = func(*args, **kwargs)
        if seen is not None:
            self._safely(self._after, seen, result)
        return result

    def _safely(self, action: Callable[..., Any], *args: Any) -> Any:
        """A mistake of ours must not end the user's run: the recording ends instead, and says why."""
        try:
            return action(*args)
        except Exception as error:
            self.log.failed(error, "at level op: ")
            return None

    def _is_captured(self) -> bool:
        cuda: Any = torch.cuda
        if cuda.is_initialized() and cuda.is_current_stream_capturing():
            self._note_unseen("operations captured in a CUDA graph")
            return True
        return False

    def _note_unseen(self, what: str) -> None:
        if what not in self._unseen:
            self._unseen.add(what)
            self.log.journal.note("unseen", what=what)

    def _before(self, func: Any, args: Any, kwargs: Any) -> _Seen:
        schema = schema_of(func)
        place = self.places.place_of(schema.short, bool(schema.writes))
        call = Call(schema, place, args, kwargs)
        generator = _generator(call.generator, call.tensors, kwargs) if schema.is_random else None
        if not self.closeup.is_idle:
            self.closeup.graft_inputs(self._place, call, generator)
        names, evidence = self._read(schema, call.tensors)
        if call.floats:
            names.append("numbers")
            evidence.append(exact(call.floats))
        if generator is not None:
            names.append("generator")
            evidence.append(digest_of_state(generator))
        taken = None
        if not self.closeup.is_idle:
            taken = self.closeup.begin(self._place, call, func, args, kwargs, generator, self.memory)
        return _Seen(call, names, evidence, taken)

    def _read(self, schema: OpSchema, tensors: list[tuple[str, Any]]) -> tuple[list[str], list[int]]:
        """Names and evidence of the inputs: what is known of them, and what has to be digested now."""
        names: list[str] = []
        evidence: list[int] = []
        late: list[tuple[int, Any]] = []
        if schema.is_view or schema.is_unwritten:
            return names, evidence
        for name, tensor in tensors:
            if schema.writes and self._is_only_written(schema, name, tensor):
                continue
            known = self.memory.known(tensor)
            if known is None:
                if not _has_bits(tensor):
                    continue
                late.append((len(names), tensor))
            names.append(name)
            evidence.append(known or 0)
        if late:
            self._digest_now(late, evidence)
        return names, evidence

    def _is_only_written(self, schema: OpSchema, name: str, tensor: Any) -> bool:
        """Whether the operation does not read the tensor; of one of the program's own, nobody knows but the writing."""
        argument = name.partition("[")[0]
        if schema.is_builtin or argument not in schema.writes:
            return argument in schema.write_only
        return tensor.layout is torch.strided and self.memory.producer(tensor)[1]

    def _digest_now(self, late: list[tuple[int, Any]], evidence: list[int]) -> None:
        tensors = [tensor for _, tensor in late]
        if _on_cpu(tensors):
            found = [evidence_of(tensor) for tensor in tensors]
        else:
            found = self._later(evidence, [at for at, _ in late], tensors)
        for (at, tensor), digest in zip(late, found, strict=True):
            evidence[at] = digest
            if tensor.layout is torch.strided:
                self.memory.digested(tensor, digest or self._stamp(at))

    def _later(self, evidence: list[int], positions: Sequence[int], tensors: list[Any]) -> list[int]:
        """Digests that stay on the accelerator until many come over together; zeros stand for them until then."""
        self._waiting.append((evidence, positions, pending(tensors)))
        return [0] * len(tensors)

    def _settle(self) -> None:
        """Fetch the digests that wait, and pass on the operations that waited for them."""
        found = results([some for _, _, some in self._waiting])
        for (evidence, positions, _), own in zip(self._waiting, found, strict=True):
            for position, digest in zip(positions, own, strict=True):
                evidence[position] = digest
        for kind, evidence in self._rows:
            self.sheet.add(kind, evidence)
        self._waiting, self._rows = [], []

    def _stamp(self, number: int) -> int:
        # Not 0, which stands for "not known yet".
        return (hash((self._made, number)) & _MASK) or 1

    @property
    def _place(self) -> tuple[int, int]:
        return self.sheet.step, self.sheet.index + len(self._rows)

    def _after(self, seen: _Seen, result: Any) -> None:
        schema = seen.call.schema
        self._made += 1
        if schema.is_view:
            self._append(seen, [], [])
            return
        made = self._made_by(seen, result)
        step, index = self._place
        producer = (step, index, schema.name, seen.call.place)
        if schema.is_collective:
            for _, tensor in made:
                self.memory.lost(tensor, producer)
            self._append(seen, [], [])
            return
        evident = [(name, tensor) for name, tensor in made if _has_bits(tensor)]
        if not self.closeup.is_idle:
            self.closeup.graft_results(self._place, evident)
        for number, (_, tensor) in enumerate(evident):
            if tensor.layout is torch.strided:
                self.memory.written(tensor, self._stamp(number), producer, schema.is_unwritten)
        if schema.is_unwritten:
            evident = []
        self._append(seen, [name for name, _ in evident], [tensor for _, tensor in evident])

    def _made_by(self, seen: _Seen, result: Any) -> list[tuple[str, Any]]:
        """What the call wrote: arguments that it changed, and new tensors."""
        writes = seen.call.schema.writes
        if not writes:
            fresh = [result] if isinstance(result, torch.Tensor) else tensors_in(result)
            return [("result", fresh[0])] if len(fresh) == 1 else [(f"result[{i}]", t) for i, t in enumerate(fresh)]
        made = [(name, tensor) for name, tensor in seen.call.tensors if name.partition("[")[0] in writes]
        known = {id(tensor) for _, tensor in made}
        fresh = [tensor for tensor in tensors_in(result) if id(tensor) not in known]
        return made + [(f"result[{i}]" if len(fresh) > 1 else "result", t) for i, t in enumerate(fresh)]

    def _append(self, seen: _Seen, names: list[str], tensors: list[Any]) -> None:
        key = (seen.call.schema.name, seen.call.place, *seen.call.signature, *seen.names, None, *names)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = self.sheet.add_kind(kind_of(seen.call, tuple(seen.names), tuple(names)))
        evidence = seen.evidence
        if tensors:
            if _on_cpu(tensors):
                evidence += [evidence_of(tensor) for tensor in tensors]
            else:
                start = len(evidence)
                evidence += self._later(evidence, list(range(start, start + len(tensors))), tensors)
        if seen.taken is not None:
            self._settle()
            row = OpRow(*self._place, self.sheet.kinds[kind], tuple(evidence))
            self.closeup.end(seen.taken, seen.call, row, tensors)
        if self._waiting:
            self._rows.append((kind, evidence))
            if len(self._rows) >= ROWS_WAITING:
                self._settle()
        elif self.sheet.add(kind, evidence) and self.log.writer is not None:
            self.write()


def _has_bits(tensor: Any) -> bool:
    """`is_evidence`, with a short way for what is on the CPU and nothing special."""
    if type(tensor) in _PLAIN and tensor.is_cpu and tensor.layout is torch.strided:
        return tensor.data_ptr() >= LOW_ADDRESS or is_evidence(tensor)
    return is_evidence(tensor)


def _on_cpu(tensors: Iterable[Any]) -> bool:
    return all(tensor.is_cpu for tensor in tensors)


def _generator(given: Any, tensors: list[tuple[str, Any]], kwargs: Any) -> Any:
    """The one that a random operation is about to draw from."""
    if given is not None:
        return given
    device = torch.device(kwargs.get("device") or (tensors[0][1].device if tensors else "cpu"))
    if device.type != "cuda":
        return torch.default_generator
    return torch.cuda.default_generators[torch.cuda.current_device() if device.index is None else device.index]
