"""Before a run is ended in the middle, what the program has open is written whole: its files are the user's.

An archive without its directory, or an HDF5 file that was not closed, cannot be read again, not even by the next run.
What it has in temporary folders is taken away, and workers of a DataLoader end as they always do, for theirs. Functions
that were registered for the end are not called: they may save a checkpoint, or wait.
"""

from __future__ import annotations

import _thread
import gc
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing import active_children
from multiprocessing.process import BaseProcess

# Module, class, and what ends it. Closing an archive writes to the file below it, so the outermost ones come first.
_KINDS = (
    ("zipfile", "ZipFile", "close"),
    ("tarfile", "TarFile", "close"),
    ("gzip", "GzipFile", "close"),
    ("bz2", "BZ2File", "close"),
    ("lzma", "LZMAFile", "close"),
    ("_io", "TextIOWrapper", "flush"),
    ("_io", "BufferedWriter", "flush"),
    ("_io", "BufferedRandom", "flush"),
    ("tempfile", "_TemporaryFileWrapper", "close"),
    ("tempfile", "TemporaryDirectory", "cleanup"),
)
# Another thread may be in the middle of writing, and hold a lock; a worker may be in the middle of a long item.
_PATIENCE_SECONDS, _PATIENCE_WITH_WORKERS_SECONDS = 5.0, 1.0


def write_out() -> None:
    """Files are as if the program had closed them; what hangs is left."""
    _within(_PATIENCE_SECONDS, lambda: (*_hdf5_files(), *_python_files()))
    # In a process that was forked there are copies of loaders: those that began the workers end them.
    workers = set(active_children())
    if workers:
        _within(_PATIENCE_WITH_WORKERS_SECONDS, lambda: _loaders_of(workers))
    _remove_shared_folder()


def _within(seconds: float, found: Callable[[], Iterable[Callable[[], object]]]) -> None:
    is_done = threading.Event()

    def end_all() -> None:
        try:
            for end in found():
                with suppress(Exception):  # closed already, or in the middle of something
                    end()
        finally:
            is_done.set()

    # Not a `threading.Thread`: it would tell our own hooks that it ends, and those wait for the one that we are in.
    _thread.start_new_thread(end_all, ())
    is_done.wait(seconds)


def _loaders_of(workers: set[BaseProcess]) -> Iterator[Callable[[], object]]:
    """What ends these workers; each has a temporary folder as soon as it has handed a tensor over."""
    from torch.utils.data import dataloader

    for one in gc.get_objects():
        if issubclass(type(one), dataloader._MultiProcessingDataLoaderIter) and workers.intersection(one._workers):
            yield one._shutdown_workers


def _python_files() -> list[Callable[[], object]]:
    """What ends those that the garbage collector knows, in the order of their kinds."""
    kinds = [getattr(sys.modules.get(module), name, None) for module, name, _ in _KINDS]
    wanted = {kind: number for number, kind in enumerate(kinds) if kind is not None}
    found: list[list[object]] = [[] for _ in _KINDS]
    known: dict[type, int | None] = {}
    for one in gc.get_objects():
        # Not what an object says of itself: a proxy would have to load what it stands for.
        own = type(one)
        if own not in known:
            known[own] = next((wanted[base] for base in own.__mro__ if base in wanted), None)
        number = known[own]
        if number is not None:
            found[number].append(one)
    return [getattr(one, act) for (_, _, act), ones in zip(_KINDS, found, strict=True) for one in ones]


def _remove_shared_folder() -> None:
    """Of `multiprocessing`, which has one for all processes of a program, and takes it away when the first one ends."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is None:
        path = process.current_process()._config.get("tempdir")
        if path:
            shutil.rmtree(path, ignore_errors=True)


def _hdf5_files() -> Iterator[Callable[[], object]]:
    """Those of h5py, which are closed only where a program ends in the usual way (docs.h5py.org, File Objects)."""
    h5py = sys.modules.get("h5py")
    if h5py is None:
        return
    with suppress(Exception):
        for one in h5py.h5f.get_obj_ids(h5py.h5f.OBJ_ALL, h5py.h5f.OBJ_FILE):
            yield h5py.File(one).close
