"""The dispatch mode that records every operation of a window of steps.

It must never change bits, draw random numbers, wait for a device once per tensor, or keep a tensor alive.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from operator import attrgetter
from types import FrameType
from typing import Any, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack, _pop_mode, _push_mode

from samebits.accelerators.devices import current_index, is_captured, kind_in_use
from samebits.agent.handlers import is_of_handler
from samebits.agent.log import Log
from samebits.agent.ops.call import Call, CallForm, exact, flat_tensors, kind_of
from samebits.agent.ops.capture import OpCapture
from samebits.agent.ops.evidence import Producers, evidence_of, stream_number, value_of
from samebits.agent.ops.places import Places
from samebits.agent.ops.schemas import OpSchema, schema_of
from samebits.agent.taps.listening import listen
from samebits.base.sites import without_own_frames
from samebits.base.tracing import tracers
from samebits.bits.digest import Pending, is_evidence, pending, results
from samebits.bits.digest.parts import LOW_ADDRESS
from samebits.rng.digests import default_generator, digest_of_state
from samebits.runfolder.ops import OpBuffer, OpRow
from samebits.runfolder.spec import OpWindow

T = TypeVar("T")
_Named = tuple[tuple[str, ...], list[torch.Tensor]]

# How many operations may wait for digests that lie on an accelerator.
ROWS_WAITING = 256

_Workers: Any = torch.utils.data.dataloader._MultiProcessingDataLoaderIter
_active_mode: Any = torch._C._get_dispatch_mode
_modes_below: Any = torch._C._len_torch_dispatch_stack
_Key: Any = torch._C._TorchDispatchModeKey
_FAKE, _FUNCTIONAL, _PROXY = _Key.FAKE, _Key.FUNCTIONAL, _Key.PROXY
_is_cpu = attrgetter("is_cpu")
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_STRIDED = torch.strided
_RESULT = ("result",)
_GENERATED_IS_CALLED_BY = "torch._inductor.output_code"


class OpRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the operations of this process; `unseen` is called with what is not seen."""

    def __init__(self, log: Log, spec: OpWindow, unseen: Callable[[str], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.log, self.spec, self._unseen = log, spec, unseen
        self.places = Places()
        self.producers = Producers()
        self._evidence_of = value_of if spec.by_value else evidence_of
        self.sheet = OpBuffer()
        self.capture = OpCapture(log, spec)
        self.is_on = self._is_tracing = False
        self._listening = ExitStack()
        self._forms: dict[tuple[object, ...], CallForm] = {}
        self._rows: list[tuple[int, list[int]]] = []
        self._waiting: list[tuple[list[int], int, Pending]] = []
        # Autograd has a thread for each accelerator.
        self._lock = threading.RLock()
        self._thread = threading.get_ident()
        # Threads that are receiving a batch from a worker process right now.
        self._arriving: set[int] = set()
        self._devices: set[int] = set()

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Have torch.compile work as if this mode were not there; what it compiled is one invisible step to us."""
        return True

    # The name that older versions of torch look for.
    is_infra_mode = ignore_compile_internals

    # ---- the window

    def begin_step(self, step: int) -> None:
        """Turn the mode on or off, as the window says for this step."""
        if self._is_tracing:
            return
        wanted = self.spec.first <= step and (self.spec.last is None or step <= self.spec.last)
        if wanted and not self.is_on:
            self.sheet.start_step(step)
            self._switch_on()
        elif self.is_on and not wanted:
            self._switch_off()

    def end_step(self) -> None:
        """End the step, and write its operations to disk."""
        if self.is_on:
            self._settle()
            self.sheet.start_step(self.sheet.step + 1)
            self.write()

    def write(self) -> None:
        """Write all operations that wait to disk."""
        self._settle()
        if not self.sheet.is_empty:
            self.sheet.write(self.log.open_writer())

    def _switch_on(self) -> None:
        # Batches come in the order in which workers finish: operations that rebuild them are no part of the training.
        self._listening.callback(listen(_Workers, "_try_get_data", self._arrives, self._arrived, self._arrived))
        for owner, name in tracers():
            self._listening.callback(listen(owner, name, self._trace_begins, self._trace_ends, self._trace_ends))
        self.is_on = True
        self.__enter__()  # type: ignore[no-untyped-call]

    def module_passes(self, module: torch.nn.Module, begins: bool) -> None:
        """Follow a module's forward, which begins or is over."""
        if self.is_on:
            self._safely(self.places.module_called if begins else self.places.module_returned, module)

    def _arrives(self, *_: object, **__: object) -> None:
        self._arriving.add(threading.get_ident())

    def _arrived(self, *_: object, **__: object) -> None:
        self._arriving.discard(threading.get_ident())

    def _trace_begins(self, *_: object, **__: object) -> None:
        if threading.get_ident() == self._thread:
            self._is_tracing = True
            self._switch_off()

    def _trace_ends(self, *_: object, **__: object) -> None:
        if threading.get_ident() == self._thread:
            self._is_tracing = False
            self._switch_on()

    def _switch_off(self) -> None:
        self.is_on = False
        self._listening.close()
        # The user's own modes may stand above this one, and stay.
        if self in _get_current_dispatch_mode_stack():
            above = []
            while (mode := _pop_mode()) is not self:
                above.append(mode)
            _push_mode(self)
            self.__exit__(None, None, None)
            for mode in reversed(above):
                _push_mode(mode)

    def close(self, writes: bool = True) -> None:
        """Stop recording; write the operations of an unfinished step, too, unless this is a forked child."""
        if self.is_on:
            self._switch_off()
            if writes and not self.log.has_stopped:
                self.write()

    # ---- one operation

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        kwargs = kwargs or {}
        with without_own_frames:
            if _modes_below() and (_active_mode(_FAKE) or _active_mode(_FUNCTIONAL) or _active_mode(_PROXY)):
                # Somebody traces with fake or functional tensors: no bits are made.
                return func(*args, **kwargs)
            if types and any(kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__ for kind in types):
                # A class with a dispatch of its own (DTensor, a fake tensor): operations that it calls come here again.
                return NotImplemented
            schema = schema_of(func)
            if schema.is_silent or self.log.has_stopped or _is_compiled(sys._getframe().f_back):
                return func(*args, **kwargs)
            if self._arriving and threading.get_ident() in self._arriving:
                return func(*args, **kwargs)
            if kind_in_use() and self._must_pass(schema, args, kwargs):
                return func(*args, **kwargs)
            call = self._safely(self._before, schema, func, args, kwargs)
            result = func(*args, **kwargs)
            if call is not None:
                self._safely(self._after, call, result)
            return result

    def _safely(self, action: Callable[..., T], *args: object) -> T | None:
        """Do the action. A mistake of ours must not end the user's run: it ends the recording, and is noted."""
        try:
            with self._lock:
                return action(*args)
        except Exception as error:
            self.log.failed(error, "at level op: ")
            if is_of_handler(error):
                raise
            return None

    def _must_pass(self, schema: OpSchema, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        """Whether an operation is not recorded: it goes into a CUDA graph, or comes from a thread in unknown order."""
        if is_captured():
            self._unseen("operations captured in a CUDA graph")
            return True
        if threading.get_ident() == self._thread:
            return False
        with self._lock:
            # Backward threads of several devices run side by side, in an order that differs between runs: operations of
            # the first device are recorded, and what operations of other devices write has an unknown producer.
            if (device := current_index()) == min(self._devices, default=device):
                return False
            for name, value in (*zip(schema.arguments, args, strict=False), *kwargs.items()):
                for tensor in flat_tensors(value) if name in schema.writes else ():
                    self.producers.wrote(tensor, None)
            self._unseen("operations of a backward on devices other than the first one")
            return True

    def _before(
        self, schema: OpSchema, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Call:
        call = Call(schema, func, args, kwargs)
        form = self._forms.get(call.signature)
        if form is None:
            form = self._forms[call.signature] = CallForm(schema, args, kwargs)
        call.form = form
        call.place = self.places.place_of(schema.short, bool(form.writes), sys._getframe(2).f_back)
        call.generator = _generator(call) if schema.is_random else None
        captures = not self.capture.is_idle
        if captures:
            self.capture.graft_inputs(self._place, call)
        tensors = call.tensors
        read = [at for at in form.reads if _has_bits(tensors[at]) and not self._is_only_written(form, at, tensors[at])]
        call.read, call.evidence = tuple(read), list[int]()
        self._digest([tensors[at] for at in read], call.evidence)
        if call.floats:
            call.read += ("numbers",)
            call.evidence.append(exact(call.floats))
        if call.generator is not None:
            call.read += ("generator",)
            call.evidence.append(digest_of_state(call.generator))
        call.is_late = schema.non_blocking is not None and _may_return_early(schema.non_blocking, args, kwargs)
        call.kept_operands = self.capture.begin(self._place, call, self.producers) if captures else None
        return call

    def _is_only_written(self, form: CallForm, at: int, tensor: torch.Tensor) -> bool:
        """Whether a custom operation cannot read what it writes to: only known for memory that was never written."""
        return not form.schema.is_builtin and at in form.writes and self.producers.of(tensor)[1]

    def _digest(self, tensors: list[torch.Tensor], evidence: list[int]) -> None:
        """Add the evidence of tensors; digests on accelerators are fetched many at a time, and are zeros until then."""
        if all(map(_is_cpu, tensors)):
            evidence += map(self._evidence_of, tensors)
            return
        if threading.get_ident() == self._thread:
            self._devices.update(at for tensor in tensors if (at := tensor.device.index) is not None)
        self._waiting.append((evidence, len(evidence), pending(tensors)))
        evidence += [0] * len(tensors)

    def _settle(self) -> None:
        """Fetch the digests that lie on accelerators, and pass on the operations that waited for them."""
        fetched = results([part for _, _, part in self._waiting])
        for (evidence, start, _), digests in zip(self._waiting, fetched, strict=True):
            evidence[start : start + len(digests)] = digests
        self._waiting, rows, self._rows = [], self._rows, []
        for kind, evidence in rows:
            if self.capture.follows:
                self.capture.follow(OpRow(*self._place, self.sheet.kinds[kind], tuple(evidence)))
            self.sheet.add(kind, evidence)

    @property
    def _place(self) -> tuple[int, int]:
        return self.sheet.step, self.sheet.index + len(self._rows)

    def _after(self, call: Call, result: object) -> None:
        schema = call.form.schema
        names, tensors = ((), []) if schema.is_view else _made_by(call.form, call.tensors, result)
        if not all(map(_has_bits, tensors)):
            names, tensors = _without(names, tensors, [tensor for tensor in tensors if not _has_bits(tensor)])
        stream = stream_number(tensors[0].device) if tensors else 0
        producer = (*self._place, schema.name, call.place, stream)
        for tensor in tensors:
            self.producers.wrote(tensor, producer, schema.is_uninitialized)
        if not self.capture.is_idle:
            self.capture.graft_results(self._place, tensors)
        is_under_way = schema.is_collective or (call.is_late and _comes_to_the_host(call.tensors, tensors))
        if schema.is_uninitialized or is_under_way:
            names, tensors = (), []
        elif schema.scratch and isinstance(result, tuple | list):
            names, tensors = _without(names, tensors, [result[at] for at in schema.scratch if at < len(result)])
        self._append(call, names, tensors)

    def _append(self, call: Call, names: tuple[str, ...], tensors: list[torch.Tensor]) -> None:
        form, evidence = call.form, call.evidence
        key = (call.place, call.read, names)
        kind = form.kinds.get(key)
        if kind is None:
            ins = tuple([item if isinstance(item, str) else form.names[item] for item in call.read])
            kind = form.kinds[key] = self.sheet.add_kind(kind_of(form, call.place, ins, names))
        self._digest(tensors, evidence)
        if call.kept_operands is not None and self.capture.keeps(self._place):
            self._settle()
        if self._waiting:
            self._rows.append((kind, evidence))
            if len(self._rows) >= ROWS_WAITING:
                self._settle()
            return
        if self.capture.follows or call.kept_operands is not None:
            self.capture.end(call, OpRow(*self._place, self.sheet.kinds[kind], tuple(evidence)), tensors)
        if self.sheet.add(kind, evidence) and self.log.writer is not None:
            self.write()


def _made_by(form: CallForm, given: list[torch.Tensor], result: object) -> _Named:
    """Return the tensors that a call wrote, with names: arguments that it changed, and new tensors."""
    changed = [given[at] for at in form.writes]
    if len(changed) == 1 and result is changed[0]:
        return form.written, changed
    changed_ids = set(map(id, changed))
    fresh = [tensor for tensor in flat_tensors(result) if id(tensor) not in changed_ids]
    names = _RESULT if len(fresh) == 1 else tuple([f"result[{i}]" for i in range(len(fresh))])
    return form.written + names, changed + fresh


def _without(names: tuple[str, ...], tensors: list[torch.Tensor], others: list[object]) -> _Named:
    left_out = set(map(id, others))
    kept = [(name, tensor) for name, tensor in zip(names, tensors, strict=True) if id(tensor) not in left_out]
    return tuple([name for name, _ in kept]), [tensor for _, tensor in kept]


def _spare_dynamo(mode: type) -> None:
    """Have dynamo skip calls of the mode by a mark on their code, which costs nothing, and not by torch's wrapper.

    The wrapper takes 3 µs a call, and the first call loads all of dynamo. It stays where torch marks code differently.
    """
    try:
        from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
    except ImportError:
        return
    bare = inspect.unwrap(mode.__torch_dispatch__)  # type: ignore[attr-defined]
    set_code_exec_strategy(bare.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))
    mode.__torch_dispatch__ = bare  # type: ignore[attr-defined]


_spare_dynamo(OpRecorder)


def _has_bits(tensor: torch.Tensor) -> bool:
    """Whether `is_evidence` holds, with a shortcut for plain tensors on the CPU."""
    if type(tensor) in _PLAIN and tensor.is_cpu and tensor.layout is _STRIDED:
        with suppress(RuntimeError):  # a tensor that wraps another has no address
            return tensor.data_ptr() >= LOW_ADDRESS or not tensor.numel() or is_evidence(tensor)
    return is_evidence(tensor)


def _is_compiled(frame: FrameType | None) -> bool:
    """Whether code that torch.compile generated is running, or what it calls: kernels, and trials of kernels.

    What happens between two such calls is not seen, and while a CUDA graph is being prepared there nothing else may
    hold memory of its pool (torch/_inductor/cudagraph_trees.py: check_memory_pool).
    """
    if _GENERATED_IS_CALLED_BY not in sys.modules:
        return False
    while frame is not None:
        if frame.f_globals.get("__name__") == _GENERATED_IS_CALLED_BY:
            return True
        frame = frame.f_back
    return False


def _may_return_early(position: int, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
    return bool(kwargs.get("non_blocking") or (len(args) > position and args[position]))


def _comes_to_the_host(given: list[torch.Tensor], made: list[torch.Tensor]) -> bool:
    """Whether something is copied from an accelerator to the host: its bits are there when the copy was waited for."""
    return any(tensor.is_cpu for tensor in made) and not all(tensor.is_cpu for tensor in given)


def _generator(call: Call) -> torch.Generator | None:
    """Return the generator that a random operation is about to draw from."""
    if call.generator is not None:
        return call.generator
    device = call.kwargs.get("device") or (call.tensors[0].device if call.tensors else "cpu")
    return default_generator(torch.device(device))
