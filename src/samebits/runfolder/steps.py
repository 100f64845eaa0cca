"""The recording on disk: one sqlite file per rank, one row per step, columns packed.

    meta(key, value)              schema, rank, sequence, complete, digest, streams; and the lane (`lane_ids.py`)
    layouts(id, names)            a list of tensor names, as JSON; most steps share one
    steps(step, kind, root, streams)
    op_kinds, ops                 operations, where they are recorded (`runfolder/ops.py`)

`root` is a chain: it digests the row's streams and the root before it. So two recordings agree up to and including
step s exactly when their roots at s are equal, and the first divergence is found by bisection, which reads only a few
rows.

A commit costs no fsync (`synchronous=OFF`): what was committed survives a killed process, though not a power cut.
There is no write-ahead log, which fails on network file systems.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

from samebits.base.errors import NewerSchemaError, RecordingError, StorageError, UnbegunError
from samebits.base.records import from_data
from samebits.runfolder.lane_ids import LaneId
from samebits.runfolder.reading import damage_described, parse_json, read_bytes, safe_path

SCHEMA = 2
# The streams by which two runs are compared, in the order in which one follows from another. The other streams only
# explain: the state of generators, losses as numbers, saved values that are no tensors, and parameters before a step.
Stream = Literal["init", "batch", "output", "loss", "grad", "param", "buffer", "optimizer", "artifact", "end"]
COMPARED: tuple[Stream, ...] = get_args(Stream)


class StreamKind(NamedTuple):
    """The names of a stream, and its role in a comparison.

    Attributes:
        step_name, plural_name: its name in answers, for one step and for all; empty for streams that are not compared.
        is_trained: whether it holds results of the training. The initial state, the data and the outputs of models are
            none: where these matter to the training, that shows in its results.
        is_numbered: whether its entries have numbers for names, counted within a step.
        is_of_models: whether its entries have the names that models give to parameters and buffers.
    """

    step_name: str = ""
    plural_name: str = ""
    is_trained: bool = False
    is_numbered: bool = False
    is_of_models: bool = False


# Recordings name a stream by its position here, so new ones go to the end.
KINDS_OF_STREAMS = {
    "init": StreamKind("the initial state", "initial state", is_of_models=True),
    "batch": StreamKind("the data", "data", is_numbered=True),
    "loss": StreamKind("the loss", "losses", is_trained=True, is_numbered=True),
    "grad": StreamKind("the gradients", "gradients", is_trained=True, is_of_models=True),
    "param": StreamKind("the parameters after the update", "parameters", is_trained=True, is_of_models=True),
    "optimizer": StreamKind("the state of the optimizer", "optimizer states", is_trained=True, is_of_models=True),
    "artifact": StreamKind("what was saved", "what was saved", is_trained=True, is_numbered=True),
    "rng": StreamKind(),
    "number": StreamKind(is_numbered=True),
    "output": StreamKind("what a model returned", "outputs", is_numbered=True),
    "buffer": StreamKind("the buffers", "buffers", is_trained=True, is_of_models=True),
    "end": StreamKind("the final state of the models", "the final state", is_trained=True),
    "saved": StreamKind(),
    "begun": StreamKind(),
}
STREAMS = tuple(KINDS_OF_STREAMS)
TRAINED: tuple[Stream, ...] = tuple(stream for stream in COMPARED if KINDS_OF_STREAMS[stream].is_trained)

# The suffix of a file next to a recording, with the root of each step, for other runs that read along.
ROOTS = ".roots"

Names = tuple[str, ...]
_HEAD = struct.Struct("<BII")
# A full disk or a kill loses no more rows than these, and none older than this.
_MOST_WAITING = 256
_SECONDS_WAITING = 0.25

_TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE layouts(id INTEGER PRIMARY KEY, names TEXT);
CREATE TABLE steps(step INTEGER PRIMARY KEY, kind TEXT, root BLOB, streams BLOB);
CREATE TABLE op_kinds(id INTEGER PRIMARY KEY, content TEXT);
CREATE TABLE ops(chunk INTEGER PRIMARY KEY, step INTEGER, first INTEGER, count INTEGER, root BLOB, packed BLOB);
"""
# The only statements that may be found in `sqlite_master`.
_KNOWN_TABLES = frozenset(line.rstrip(";") for line in _TABLES.splitlines())
# The bytes with which a rollback journal of SQLite begins.
_JOURNAL = bytes.fromhex("d9d505f920a163d7")


@dataclass(frozen=True)
class Column:
    """One stream of one step: names and 64-bit digests, in the same order."""

    names: Names
    digests: Sequence[int]

    def as_dict(self) -> dict[str, int]:
        """Return the digests by name; a name that occurs again gets a number, as in `name (2)`."""
        by_name = dict(zip(self.names, self.digests, strict=True))
        if len(by_name) < len(self.names):
            counts = Counter[str]()
            for name, digest in zip(self.names, self.digests, strict=True):
                counts[name] += 1
                by_name[f"{name} ({counts[name]})" if counts[name] > 1 else name] = digest
        return by_name


def file_name(rank: int, sequence: int) -> str:
    """Return the name of a recording: `recording.sqlite` for the first process of rank 0; others hold their numbers."""
    rank_part = f".rank{rank}" if rank else ""
    sequence_part = f".process{sequence}" if sequence else ""
    return f"recording{rank_part}{sequence_part}.sqlite"


class Writer:
    """Writes one recording; every method leaves the file readable.

    `digest` names the definition of the digests of tensors (`bits.digest.DIGEST`); empty where there are none.
    """

    def __init__(self, folder: Path, rank: int, lane_id: LaneId = LaneId(), digest: str = "") -> None:  # noqa: B008 - frozen
        self.path, sequence = _claim(folder, rank)
        # Lists of names that were written before → their id and digest.
        self._layouts: dict[Names, tuple[int, bytes]] = {}
        self._streams: set[str] = set()
        self._root = b""
        self._waiting: list[tuple[str, tuple[object, ...]]] = []
        self._committed = time.perf_counter()
        self._commit_seconds = 0.0
        with _storage_errors(self.path):
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=PERSIST")
            self._db.execute("PRAGMA synchronous=OFF")
            self._db.executescript(_TABLES)
            meta = {"schema": SCHEMA, "rank": rank, "sequence": sequence, "complete": 0, "digest": digest}
            meta |= {**vars(lane_id), "order": json.dumps(lane_id.order)}
            self._db.executemany("INSERT INTO meta VALUES(?, ?)", [(k, str(v)) for k, v in meta.items()])

    def write(self, step: int, kind: str, columns: Mapping[str, Column]) -> bytes:
        """Append one step, and return its root. `kind` is `step`, or `end` for what came after the last one."""
        packed, compared = [], []
        for stream in STREAMS:
            column = columns.get(stream)
            if column is not None:
                (layout, named), digests = self._layout(column.names), array("Q", column.digests).tobytes()
                packed += [_HEAD.pack(STREAMS.index(stream), layout, len(column.digests)), digests]
                if stream in COMPARED:
                    compared += [stream.encode(), named, digests]
        self._root = _chained(self._root, kind, compared)
        if not self._streams.issuperset(columns):
            self._streams.update(columns)
            present = " ".join(stream for stream in STREAMS if stream in self._streams)
            self.insert("INSERT OR REPLACE INTO meta VALUES('streams', ?)", present)
        self.insert("INSERT INTO steps VALUES(?, ?, ?, ?)", step, kind, self._root, b"".join(packed))
        return self._root

    def insert(self, statement: str, *values: object) -> None:
        """Append one row by a statement of the caller; it waits for the next commit."""
        self._waiting.append((statement, values))
        if self.is_due or len(self._waiting) >= _MOST_WAITING:
            self.commit()

    @property
    def is_due(self) -> bool:
        """Whether the next row is committed at once.

        Rows wait here, because in an open transaction each would cost 0.1 ms, and a kill would lose it anyway.
        Committing may take 0.3 % of the time: slow steps are committed one by one, quick ones together. No row waits
        for more than a quarter of a second, however long a busy machine took for the last commit.
        """
        return time.perf_counter() - self._committed >= min(_SECONDS_WAITING, 300 * self._commit_seconds)

    def commit(self) -> None:
        """Commit all rows written so far, so that they survive a kill."""
        start = time.perf_counter()
        with _storage_errors(self.path):
            self._db.execute("BEGIN")
            for statement, values in self._waiting:
                self._db.execute(statement, values)
            self._db.execute("COMMIT")
        self._waiting.clear()
        self._committed = time.perf_counter()
        self._commit_seconds = self._committed - start

    def close(self, complete: bool = True) -> None:
        """Commit, and close the file; `complete` says that no row is missing."""
        self.insert("UPDATE meta SET value=? WHERE key='complete'", str(int(complete)))
        if self._waiting:
            self.commit()
        with _storage_errors(self.path):
            self._db.close()

    def _layout(self, names: Names) -> tuple[int, bytes]:
        if names not in self._layouts:
            self._layouts[names] = len(self._layouts), _digest_of(names)
            self.insert("INSERT INTO layouts VALUES(?, ?)", self._layouts[names][0], json.dumps(names))
        return self._layouts[names]


def _claim(folder: Path, rank: int) -> tuple[Path, int]:
    """Create the file with the next free name for this rank, without a race between processes."""
    for sequence in range(10_000):
        path = folder / file_name(rank, sequence)
        with _storage_errors(path), suppress(FileExistsError):
            path.open("xb").close()
            return path, sequence
    raise StorageError(f"{folder} already holds 10000 recordings of rank {rank}", "use a fresh --out folder")


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    """Turn errors of sqlite and of the disk into a StorageError that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        why = f"cannot write the recording {path}: {error}"
        raise StorageError(why, "free some space, or choose a folder with --out") from error


class Recording:
    """One rank's recording, read without torch.

    Attributes:
        rank, sequence: its rank, and its number among the recordings of that rank in the order of arrival.
        complete: whether the process ended by itself; False after a kill or a crash.
        digest: the definition of the digests of tensors; only digests of one definition can be compared.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._layouts: dict[int, Names] = {}
        with self.damage_described():
            self._db = sqlite3.connect(_address(path), uri=True, isolation_level=None, check_same_thread=False)
            meta = self._meta()
            self.rank, self.sequence, self.digest = int(meta["rank"]), int(meta["sequence"]), meta["digest"]
            order = from_data(tuple[tuple[int, int], ...], parse_json(meta["order"]))
            self.lane_id = LaneId(order, meta["process"], meta["thread"], int(meta["training"]))
            self.complete = meta["complete"] == "1"
            self._present = meta.get("streams", "").split()

    def _meta(self) -> dict[str, str]:
        """Return the content of the table `meta`, if the file holds nothing but the tables of a recording."""
        tables = dict(self._db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        rows = self._db.execute("SELECT key, value FROM meta") if tables.get("meta") in _KNOWN_TABLES else ()
        meta = {str(key): str(value) for key, value in rows}
        if not {"steps", "ops"} <= tables.keys() or not {"schema", "digest", "training"} <= meta.keys():
            raise UnbegunError(f"{self.path} is not a recording: it is empty", "was the run ended at its start?")
        if (schema := int(meta["schema"])) != SCHEMA:
            why = f"{self.path} has schema {schema}, and this samebits reads schema {SCHEMA}"
            if schema < SCHEMA:
                raise RecordingError(why, "an older samebits made it: make that run again")
            raise NewerSchemaError(why, "upgrade samebits: pip install --upgrade samebits")
        if not _KNOWN_TABLES.issuperset(tables.values()):
            # Views, triggers and computed columns are code, which reading would run.
            raise ValueError("it holds other things than the tables of samebits")
        return meta

    def __len__(self) -> int:
        """Return the number of rows: steps, and the end where there is one."""
        return int(self.first_row("SELECT COUNT(*) FROM steps")[0])

    @property
    def steps(self) -> int:
        """The number of steps, without the row of the end."""
        return int(self.first_row("SELECT COUNT(*) FROM steps WHERE kind='step'")[0])

    def streams(self) -> tuple[str, ...]:
        """Return the compared streams that the recording holds, in the order of `COMPARED`."""
        return tuple(stream for stream in COMPARED if self.holds(stream))

    def holds(self, stream: str) -> bool:
        """Whether any row holds the stream, which need not be a compared one."""
        return stream in self._present

    def root(self, step: int) -> bytes | None:
        """Return the chained digest of everything up to and including `step`; None past the last row."""
        rows = self.query("SELECT CAST(root AS BLOB) FROM steps WHERE step=?", step)
        return rows[0][0] if rows else None

    def kind(self, step: int) -> str:
        """Return the kind of a row, `step` or `end`."""
        return str(self.first_row("SELECT kind FROM steps WHERE step=?", step)[0])

    def columns(self, step: int) -> dict[str, Column]:
        """Return every stream of one step."""
        with self.damage_described():
            return dict(self._unpacked(self.first_row("SELECT CAST(streams AS BLOB) FROM steps WHERE step=?", step)[0]))

    def assert_sound(self, step: int) -> None:
        """Raise RecordingError if a row is not as it was written: no verdict may rest on a damaged row."""
        before = self.root(step - 1) or b"" if step else b""
        with self.damage_described():
            if _chained(before, self.kind(step), self._compared(step)) != self.root(step):
                raise ValueError(f"step {step} does not have the digest that was written with it")

    def _compared(self, step: int) -> Iterator[bytes]:
        columns = self.columns(step)
        for stream in STREAMS:
            if stream in COMPARED and (column := columns.get(stream)) is not None:
                yield from (stream.encode(), _digest_of(column.names), array("Q", column.digests).tobytes())

    def query(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows that a statement of the caller selects."""
        with self.damage_described():
            return self._db.execute(statement, values).fetchall()

    def first_row(self, statement: str, *values: object) -> tuple[Any, ...]:
        """Return the first row that a statement selects; RecordingError where there is none."""
        with self.damage_described():
            return self.query(statement, *values)[0]

    def damage_described(self) -> AbstractContextManager[None]:
        """Turn whatever error the file causes in the block into a RecordingError of one sentence."""
        return damage_described(self.path, "is damaged", "it cannot be compared; make that run again")

    def close(self) -> None:
        self._db.close()

    def _unpacked(self, packed: bytes) -> Iterator[tuple[str, Column]]:
        offset = 0
        while offset < len(packed):
            stream, layout, count = _HEAD.unpack_from(packed, offset)
            offset += _HEAD.size
            digests = array("Q", packed[offset : offset + 8 * count])
            offset += 8 * count
            names = self._names(layout)
            if len(names) != len(digests):
                raise ValueError(f"{len(names)} names stand for {len(digests)} digests")
            yield STREAMS[stream], Column(names, digests)

    def _names(self, layout: int) -> Names:
        if layout not in self._layouts:
            (names,) = self.first_row("SELECT names FROM layouts WHERE id=?", layout)
            self._layouts[layout] = from_data(tuple[str, ...], parse_json(names))
        return self._layouts[layout]


def _address(path: Path) -> str:
    """Return the file's URI: read-only, unless a journal that a killed process left has to be rolled back first."""
    journal = safe_path(path.with_name(f"{path.name}-journal"), path.parent)
    content = read_bytes(journal, path.parent) if journal.exists() else b""
    # A journal that also ends with these bytes names another file, which sqlite would delete.
    is_left = content.startswith(_JOURNAL) and not content.endswith(_JOURNAL)
    return f"file:{quote(str(path))}?mode={'rw' if is_left else 'ro'}"


def _chained(before: bytes, kind: str, compared: Iterable[bytes]) -> bytes:
    return hashlib.blake2b(before + kind.encode() + b"".join(compared), digest_size=8).digest()


def _digest_of(names: Names) -> bytes:
    return hashlib.blake2b("\0".join(names).encode(), digest_size=8).digest()
