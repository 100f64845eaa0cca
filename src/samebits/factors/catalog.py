"""The catalogue: all factors, in the order in which they are shown. A new factor takes a file, and an entry here."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from samebits.base.errors import UnknownFactorError
from samebits.factors.attention_backend import AttentionBackend
from samebits.factors.base import Factor
from samebits.factors.clock import Clock
from samebits.factors.completion_order import CompletionOrder
from samebits.factors.cpu_threads import CpuThreads
from samebits.factors.cudnn import CudnnAlgorithms, CudnnAutotune
from samebits.factors.data_workers import DataWorkers
from samebits.factors.file_order import FileOrder
from samebits.factors.files_left_behind import FilesLeftBehind
from samebits.factors.float_precision import FloatPrecision
from samebits.factors.hash_seed import HashSeed
from samebits.factors.memory_addresses import MemoryAddresses
from samebits.factors.numpy_rng import NumpyRng
from samebits.factors.os_entropy import OsEntropy
from samebits.factors.process_id import ProcessId
from samebits.factors.python_rng import PythonRng
from samebits.factors.stream_order import StreamOrder
from samebits.factors.thread_order import ThreadOrder
from samebits.factors.torch_algorithms import TorchAlgorithms
from samebits.factors.torch_rng import TorchRng
from samebits.factors.triton_autotune import TritonAutotune
from samebits.factors.uninitialized_memory import UninitializedMemory
from samebits.factors.variables import CpuIsa, CublasWorkspace, InductorAutotune, NcclAlgorithms

CATALOG: tuple[Factor, ...] = (
    PythonRng(),
    NumpyRng(),
    TorchRng(),
    OsEntropy(),
    Clock(),
    ProcessId(),
    HashSeed(),
    MemoryAddresses(),
    FileOrder(),
    CompletionOrder(),
    ThreadOrder(),
    StreamOrder(),
    FilesLeftBehind(),
    UninitializedMemory(),
    CpuThreads(),
    CpuIsa(),
    TorchAlgorithms(),
    CudnnAutotune(),
    CudnnAlgorithms(),
    CublasWorkspace(),
    InductorAutotune(),
    TritonAutotune(),
    AttentionBackend(),
    NcclAlgorithms(),
    FloatPrecision(),
    DataWorkers(),
)

_BY_NAME = {factor.name: factor for factor in CATALOG}


def names() -> list[str]:
    """Return the names of all factors, in catalogue order."""
    return list(_BY_NAME)


def find(name: str) -> Factor:
    """Return the factor of that name, or raise UnknownFactorError, which suggests the nearest name."""
    factor = _BY_NAME.get(name)
    if factor is None:
        if name == "seed":
            raise UnknownFactorError("there is no factor 'seed'", "give --seed N: pinned factors are seeded from it")
        matches = difflib.get_close_matches(str(name).lower().replace("_", "-"), _BY_NAME, n=1, cutoff=0.5)
        hint = f"did you mean {matches[0]}?" if matches else f"the factors are {', '.join(_BY_NAME)}"
        raise UnknownFactorError(f"there is no factor {name!r}", hint)
    return factor


def in_order(wanted: Iterable[str]) -> list[str]:
    """Return the given names in catalogue order, each once."""
    chosen = set(wanted)
    return [name for name in _BY_NAME if name in chosen]
