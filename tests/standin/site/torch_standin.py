"""What `import torch` loads by its entry point: the stand-in as `torch.standin`, or under CUDA's own name.

Nothing happens unless STANDIN_AS is `standin` or `cuda`. Which faults it has stands in `tests/standin/__init__.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
import types

NAME, DRIVER = os.environ.get("STANDIN_CALLED", "Stand-in"), os.environ.get("STANDIN_DRIVER", "1.0")
_is_forked = threading.Event()


def load() -> None:
    kind = os.environ.get("STANDIN_AS")
    if kind not in ("standin", "cuda"):
        return
    os.register_at_fork(after_in_child=_is_forked.set)
    under_cudas_name() if kind == "cuda" else under_its_own_name()
    atexit.register(_finish)


def _finish() -> None:
    """No stream may work on while the interpreter is taken down."""
    import _standin

    if _is_forked.is_set():
        return
    for index in range(_standin.count()):
        with contextlib.suppress(RuntimeError):  # broken by a failed assert
            _standin.synchronize(index)
    # Autograd's thread of the device lets go of its last graph after backward has returned, and needs the interpreter.
    time.sleep(0.1)


def index_of(device: object = None) -> int:
    """The number of a device, given in any of the ways in which torch takes one."""
    import _standin
    import torch

    index = torch.device(device).index if isinstance(device, (str, torch.device)) else device
    return _standin.get_device() if index is None or index < 0 else index


def _streams_of(kind: str) -> tuple[type, type]:
    import torch

    class Stream(torch.Stream):
        __module__ = f"torch.{kind}"

        def __new__(cls, device=None, priority=0, **known):
            return super().__new__(cls, **(known or {"device": torch.device(kind, index_of(device))}))

        cuda_stream = property(lambda self: self.stream_id)

    class Event:
        def __new__(cls, enable_timing=False, blocking=False, interprocess=False):
            return torch.Event(kind, enable_timing=enable_timing)

    return Stream, Event


def _own_stream(Stream: type, known) -> object:
    return Stream(stream_id=known.stream_id, device_index=known.device_index, device_type=known.device_type)


@contextlib.contextmanager
def _on_stream(stream):
    import torch

    if stream is None:
        yield
        return
    before = torch.accelerator.current_stream(stream.device_index)
    with contextlib.ExitStack() as later:
        later.callback(torch.accelerator.set_stream, before)
        torch.accelerator.set_stream(stream)
        yield


def _functions(kind: str) -> dict[str, object]:
    """What both names have in common."""
    import torch

    Stream, Event = _streams_of(kind)

    def default_stream(device=None):
        now = torch.accelerator.current_stream(index_of(device))
        return Stream(stream_id=0, device_index=now.device_index, device_type=now.device_type)

    return {
        "Stream": Stream,
        "Event": Event,
        "stream": _on_stream,
        "set_stream": torch.accelerator.set_stream,
        "current_stream": lambda device=None: _own_stream(Stream, torch.accelerator.current_stream(index_of(device))),
        "default_stream": default_stream,
    }


def under_its_own_name() -> None:
    """As the maker of a device does it: PrivateUse1, renamed, and a module of torch's."""
    import _standin
    import torch

    torch.utils.rename_privateuse1_backend("standin")
    own = types.ModuleType("torch.standin")
    lock, waiting = threading.RLock(), []

    def is_initialized():
        return bool(own.default_generators) and not _is_forked.is_set()

    def _lazy_init():  # torch's own devices call it so, too
        with lock:
            if own.default_generators:
                if _is_forked.is_set():
                    raise RuntimeError("Cannot re-initialize standin in forked subprocess")
                return
            own.default_generators = tuple(map(_standin.generator, range(_standin.count())))
            while waiting:
                waiting.pop(0)()

    def once_in_use(call):
        call() if own.default_generators else waiting.append(call)

    def generator(device="standin"):
        _lazy_init()
        return own.default_generators[index_of(device)]

    def set_rng_state(state, device="standin"):
        state = state.clone()
        once_in_use(lambda: generator(device).set_state(state))

    def seed_each(seed):
        once_in_use(lambda: [one.manual_seed(seed) for one in own.default_generators])

    class Device:
        def __init__(self, device):
            self.index = index_of(device)

        def __enter__(self):
            self.before = _standin.get_device()
            _standin.set_device(self.index)

        def __exit__(self, *_):
            _standin.set_device(self.before)

    memory = torch.accelerator.memory
    own.__dict__.update(
        _functions("standin"),
        default_generators=(),
        device=Device,
        init=_lazy_init,
        _lazy_init=_lazy_init,
        _lazy_call=once_in_use,
        is_initialized=is_initialized,
        _is_in_bad_fork=lambda: bool(own.default_generators) and _is_forked.is_set(),
        is_available=lambda: _standin.count() > 0,
        device_count=_standin.count,
        current_device=_standin.get_device,
        set_device=lambda device: _standin.set_device(index_of(device)),
        get_device_name=lambda device=None: NAME,
        get_device_properties=lambda device=None: types.SimpleNamespace(name=NAME, driver_version=DRIVER),
        synchronize=lambda device=None: _standin.synchronize(index_of(device)),
        get_rng_state=lambda device="standin": generator(device).get_state(),
        set_rng_state=set_rng_state,
        get_rng_state_all=lambda: [generator(index).get_state() for index in range(_standin.count())],
        set_rng_state_all=lambda states: [set_rng_state(one, index) for index, one in enumerate(states)] and None,
        manual_seed=lambda seed: once_in_use(lambda: generator().manual_seed(seed)),
        manual_seed_all=seed_each,
        seed=lambda: once_in_use(lambda: generator().seed()),
        seed_all=lambda: once_in_use(lambda: [one.seed() for one in own.default_generators]),
        initial_seed=lambda: generator().initial_seed(),
        get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
        **{name: getattr(memory, name) for name in memory.__all__ if name != "get_memory_info"},
        mem_get_info=memory.get_memory_info,
    )
    torch._register_device_module("standin", own)
    sys.modules["torch.standin"] = own
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)


def under_cudas_name() -> None:
    """In a torch built without CUDA: what `torch.cuda` would find in `torch._C` if it had been built with it."""
    import _standin
    import torch

    cuda = torch.cuda
    is_in_use = threading.Event()

    def init():
        cuda.default_generators = tuple(map(_standin.generator, range(_standin.count())))
        is_in_use.set()

    def exchange(index):
        before = _standin.get_device()
        if index >= 0:
            _standin.set_device(index)
        return before

    def memory_stats(index):
        found: dict[str, dict] = {}
        for name, value in torch.accelerator.memory_stats(index).items():
            what, *parts = name.split(".")
            if len(parts) == 2:
                found.setdefault(what, {}).setdefault(parts[0], {})[parts[1]] = value
        return found

    for name, value in {
        "init": init,
        "getDeviceCount": _standin.count,
        "getDevice": _standin.get_device,
        "setDevice": _standin.set_device,
        "exchangeDevice": exchange,
        "maybeExchangeDevice": exchange,
        "isInBadFork": lambda: is_in_use.is_set() and _is_forked.is_set(),
        "synchronize": lambda: _standin.synchronize(_standin.get_device()),
        "getCompiledVersion": lambda: 13000,
        "getArchFlags": lambda: "sm_90",
        "get_sync_debug_mode": lambda: 0,
        "isCurrentStreamCapturing": lambda: False,
        "getCurrentRawStream": lambda index: torch.accelerator.current_stream(index).stream_id,
        "memoryStats": memory_stats,
        "resetPeakMemoryStats": torch.accelerator.reset_peak_memory_stats,
        "emptyCache": torch.accelerator.empty_cache,
        "ipc_collect": lambda: None,
    }.items():
        setattr(torch._C, f"_cuda_{name}", value)
    properties = types.SimpleNamespace(name=NAME, major=9, minor=0, multi_processor_count=2, total_memory=8 << 30)
    properties.gcnArchName, properties.uuid = "", "0"
    # Bound by name when torch was imported, or needing more of CUDA than there is.
    shared = _functions("cuda")
    cuda.__dict__.update(
        shared,
        _cudart=types.SimpleNamespace(cudaMemGetInfo=torch.accelerator.get_memory_info),
        _is_in_bad_fork=torch._C._cuda_isInBadFork,
        _exchange_device=exchange,
        _maybe_exchange_device=exchange,
        is_current_stream_capturing=torch._C._cuda_isCurrentStreamCapturing,
        get_device_properties=lambda device=None: cuda._lazy_init() or properties,
        get_device_capability=lambda device=None: (9, 0),
    )
    cuda.graphs.is_current_stream_capturing = cuda.is_current_stream_capturing
    cuda.streams.Stream, cuda.streams.Event = cuda.Stream, cuda.Event
    torch.version.cuda = "13.0"
    Storage = torch.UntypedStorage
    usual_to, usual_clone, usual_resize = Storage.to, Storage.clone, Storage.resize_

    def to(self, *, device, non_blocking=False):
        if torch.device(device).type != "cuda" or self.device.type == "cuda":
            return usual_to(self, device=device, non_blocking=non_blocking)
        here = torch.empty(0, dtype=torch.uint8).set_(self)
        return here.to(device, non_blocking=non_blocking).untyped_storage()

    def clone(self):
        if self.device.type != "cuda":
            return usual_clone(self)
        return torch.empty(0, dtype=torch.uint8, device=self.device).set_(self).clone().untyped_storage()

    def resize_(self, size):
        return _standin.resize_storage(self, size) if self.device.type == "cuda" else usual_resize(self, size)

    Storage.to, Storage.clone, Storage.resize_ = to, clone, resize_
