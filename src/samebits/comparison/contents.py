"""What a file holds, leaf by leaf: tensors, numbers, texts; where it cannot be read, its bytes.

Nothing in a file is run: a pickle is read by names. A leaf is kept as text, where it is long as its digest, so that the
files of two runs can be compared when they are gone.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
import os
import re
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from samebits.bits.raw import digest_of_blocks, raw_digest
from samebits.comparison.pickles import Unpickled, leaves, read_next, read_pickle

# What is larger is digested as it is; longer texts are known by their digests.
MOST_BYTES, MOST_SHOWN, MOST_LEAVES = 1 << 31, 2000, 1 << 17
_BLOCK = 1 << 22
_DIGEST = re.compile(r"\b(bytes|text) [0-9a-f]{16}$")
# Of torch's own archive: a checksum of the names of its members, which begin with the name of the file.
_CHECKSUM = ".data/serialization_id"
_REBUILT = "torch._utils._rebuild_tensor_v2"
# torch's format of before 1.6, in which a plain pickle still holds its tensors: it names them by addresses.
_MAGIC, _INSIDE = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "torch.storage._load_from_bytes"
_WIDTHS = {"Double": 8, "Long": 8, "ComplexFloat": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2}
_WIDTHS |= {"ComplexDouble": 16, "Char": 1, "Byte": 1, "Bool": 1}

Content = dict[str, str]
Words = Callable[[str], str]


def content_of(path: Path, said: Words = str) -> Content:
    """The leaves of a file, each as text, as it is `said`: a run's own folder may be called otherwise in it."""
    if os.path.getsize(path) > MOST_BYTES:
        with path.open("rb") as file:
            return {"": _bytes(digest_of_blocks(iter(lambda: file.read(_BLOCK), b"")))}
    return content(path.read_bytes(), said, str(path))


def content(raw: bytes, said: Words = str, path: str = "") -> Content:
    """The same of bytes; `path` is where they lie, for what is to be read from there."""
    for begins, read in _FORMATS.items():
        if raw.startswith(begins):
            try:
                return _kept(read(raw, path), said)
            except Exception:  # it only looks as if it could be read so
                break
    for read_text in (_safetensors, _tar, _json, _text):
        try:
            return _kept(read_text(raw, path), said)
        except (ValueError, RecursionError, KeyError, TypeError):
            continue
    return {"": _bytes(raw_digest(raw))}


def text_content(text: str, said: Words = str) -> Content:
    """The leaves of a text: its lines. A bar that writes over itself counts as it stands in the end."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.rstrip("\n").split("\n"))
    return _kept(((f"line {number}", line) for number, line in enumerate(lines, 1)), said)


def _kept(found: Iterator[tuple[str, object]], said: Words) -> Content:
    kept: Content = {}
    for path, leaf in found:
        # Two leaves of one name are two leaves.
        name = path if path not in kept else f"{path}#{len(kept)}"
        kept[name] = _shown(leaf, said)
        if len(kept) > MOST_LEAVES:
            raise ValueError("too many leaves")
    return kept


def _shown(leaf: object, said: Words) -> str:
    if isinstance(leaf, str):
        text = said(leaf)
        return text if len(text) <= MOST_SHOWN else f"text {raw_digest(text.encode(errors='surrogatepass')):016x}"
    if isinstance(leaf, bytes | bytearray):
        return _bytes(raw_digest(bytes(leaf)))
    if isinstance(leaf, float):
        # repr says every bit of a float but those of a NaN.
        return "nan" if math.isnan(leaf) else repr(leaf)
    # A class is known by its name.
    return repr(leaf) if leaf is None or isinstance(leaf, int | complex) else getattr(leaf, "name", str(leaf))


def is_digest(leaf: str) -> bool:
    """Whether a leaf is known by its digest only."""
    return _DIGEST.search(leaf) is not None


def _bytes(digest: int) -> str:
    return f"bytes {digest:016x}"


# ---- formats


def _zip(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    """Members by name, without the folder that all of them are in."""
    with zipfile.ZipFile(BytesIO(raw)) as file:
        names = [name for name in file.namelist() if not name.endswith("/")]
        first = {name.partition("/")[0] for name in names}
        prefix = f"{first.pop()}/" if len(first) == 1 and all("/" in name for name in names) else ""
        members = {name.removeprefix(prefix): name for name in names}
        used = set[str]()

        def storage(pid: Any) -> object:
            # ("storage", class, key, device, elements): torch/serialization.py
            _, kind, key, device, count = pid
            if f"data/{key}" not in members:
                # TorchScript's constants and a package's members
                raise ValueError(key)
            used.add(f"data/{key}")
            return _Storage(file.read(members[f"data/{key}"]), kind, str(device), int(count))

        pickled = [name for name in members if name.endswith(".pkl")]
        for name in pickled:
            label = "" if name == "data.pkl" else f"{name}: "
            try:
                tree = read_pickle(file.read(members[name]), storage)
                found = [*leaves(tree, whole=_tensor)]
            except ValueError:
                found = [("", file.read(members[name]))]
            yield from ((f"{label}{path}", leaf) for path, leaf in found)
        for name in members:
            if name not in used and name not in pickled and not name.endswith(_CHECKSUM):
                inside = file.read(members[name])
                inside = _declared_in_order(inside) if name.startswith("code/") else inside
                yield from _inside(name, inside)


def _inside(name: str, raw: bytes) -> Iterator[tuple[str, object]]:
    """The leaves of a member."""
    return ((f"{name}: {path}" if path else name, leaf) for path, leaf in content(raw).items())


def _declared_in_order(code: bytes) -> bytes:
    """TorchScript writes the constants of a module as a set gives them: `mode : Final[str] = "mean"`, one to a line."""
    lines = code.split(b"\n")
    groups = groupby(lines, lambda line: b" : Final[" in line)
    return b"\n".join(line for are_constants, own in groups for line in (sorted(own) if are_constants else own))


class _Storage:
    """The bytes behind tensors."""

    def __init__(self, raw: bytes, kind: type, device: str, count: int) -> None:
        self.raw, self.device, self.count = raw, device, count
        self.kind = getattr(kind, "name", str(kind)).rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.kind} {self.device} {_bytes(raw_digest(self.raw))}"

    def part(self, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> bytes:
        """What a tensor shows of it; all of it where that does not lie side by side."""
        width = len(self.raw) // self.count if self.count else 0
        dense, many = [], 1
        for size in reversed(sizes):
            dense.append(many)
            many *= size
        is_dense = all(s == d or n == 1 for s, d, n in zip(strides, reversed(dense), sizes, strict=True))
        return self.raw[offset * width : (offset + many) * width] if is_dense and width else self.raw


def _tensor(one: Unpickled) -> object:
    """What stands for a tensor; None for any other object."""
    made = one.parts.get("")
    if one.name != _REBUILT or not isinstance(made, tuple):
        return None
    storage, offset, sizes, strides = made[:4]
    if isinstance(storage, Unpickled) and storage.name == _INSIDE:
        storage = _old_format(cast("tuple[bytes]", storage.parts[""])[0])
    if not isinstance(storage, _Storage):
        return None
    digest = _bytes(raw_digest(storage.part(offset, sizes, strides)))
    return f"{storage.kind.removesuffix('Storage')} {list(sizes)} on {storage.device} {digest}"


def _pickle(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    tree = _old_format(raw) if raw.startswith(_MAGIC) else read_pickle(raw)
    return leaves(tree, whole=_tensor)


def _old_format(raw: bytes) -> object:
    """Magic number, protocol, system, what was saved, keys of its storages; and these, each behind its length."""
    file, stored = BytesIO(raw), dict[object, _Storage]()
    for _ in range(3):
        read_next(file)

    def storage(pid: Any) -> object:
        # ("storage", class, key, device, elements, None): torch/serialization.py, _legacy_save
        _, kind, key, device, count, view = pid
        if view is not None:
            raise ValueError("a view of a storage")
        return stored.setdefault(key, _Storage(b"", kind, str(device), int(count)))

    found = read_next(file, storage)
    for key in cast("list[object]", read_next(file)):
        width = _WIDTHS[stored[key].kind.removesuffix("Storage")]
        stored[key].raw = file.read(int.from_bytes(file.read(8), "little") * width)
    if file.read(1):
        raise ValueError("something follows the storages")
    return found


def _npy(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    # numpy.lib.format: magic, version, length of the header, header, elements
    width = 2 if raw[6] == 1 else 4
    start = 8 + width + int.from_bytes(raw[8 : 8 + width], "little")
    header = raw[8 + width : start].decode("latin-1").strip()
    if "'O'" in header or "|O" in header:
        yield "array", header
        yield from leaves(read_pickle(raw[start:]), "elements")
    else:
        yield "array", f"{header} {_bytes(raw_digest(raw[start:]))}"


def _safetensors(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    length = int.from_bytes(raw[:8], "little")
    if not 2 <= length <= len(raw) - 8 or raw[8:9] != b"{":
        raise ValueError("no safetensors")
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    for name, one in header.items():
        if name == "__metadata__":
            yield from leaves(one, "metadata")
        else:
            begin, end = one["data_offsets"]
            yield name, f"{one['dtype']} {one['shape']} {_bytes(raw_digest(data[begin:end]))}"


def _sqlite(_: bytes, path: str) -> Iterator[tuple[str, object]]:
    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)) as database:
        made = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        for name, sql in made:
            yield f"{name}: table", sql
            quoted = name.replace('"', '""')
            for number, row in enumerate(database.execute(f'SELECT * FROM "{quoted}"')):
                yield from ((f"{name}[{number}][{column}]", one) for column, one in enumerate(row))


def _packed(unpack: Callable[[bytes], bytes]) -> Callable[[bytes, str], Iterator[tuple[str, object]]]:
    return lambda raw, _: iter(content(unpack(raw)).items())


def _tar(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    """Members by name; when they were written, and by whom, is left aside."""
    if raw[257:262] != b"ustar":
        raise ValueError("no tar")
    with tarfile.open(fileobj=BytesIO(raw)) as file:
        for member in file:
            inside = file.extractfile(member) if member.isfile() else None
            if inside is None:
                yield f"{member.name}: kind", f"{member.type!r} {member.linkname}"
            else:
                yield from _inside(member.name, inside.read())


def _json(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    tree = json.loads(raw.decode())
    if not isinstance(tree, dict | list):
        raise ValueError("a text")
    return leaves(tree)


def _text(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    if b"\0" in raw:
        raise ValueError("no text")
    return iter(text_content(raw.decode()).items())


def _events(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    """TensorBoard's: records with their lengths (TFRecord), each a message of protocol buffers."""
    at = number = 0
    while at < len(raw):
        length = int.from_bytes(raw[at : at + 8], "little")
        record = raw[at + 12 : at + 12 + length]
        if len(record) != length:
            raise ValueError("cut off")
        yield from _message(record, f"record {number}")
        at, number = at + 16 + length, number + 1


def _message(raw: bytes, path: str) -> Iterator[tuple[str, object]]:
    """The fields of a message, by number; what has a length is a message in turn where it can be read as one."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        name, kind = f"{path}.{tag >> 3}", tag & 7
        if kind == 0:
            value, at = _varint(raw, at)
            yield name, value
            continue
        size, at = _varint(raw, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
        part, at = raw[at : at + size], at + size
        if len(part) != size:
            raise ValueError("cut off")
        try:
            inner = [*_message(part, name)] if kind == 2 and part else []
        except (ValueError, KeyError, IndexError):
            inner = []
        yield from inner or [(name, part)]


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


_FORMATS: dict[bytes, Callable[[bytes, str], Iterator[tuple[str, object]]]] = {
    b"PK\x03\x04": _zip,
    b"\x93NUMPY": _npy,
    b"SQLite format 3\0": _sqlite,
    b"\x1f\x8b": _packed(gzip.decompress),
    b"BZh": _packed(bz2.decompress),
    b"\xfd7zXZ\0": _packed(lzma.decompress),
    **{bytes([0x80, version]): _pickle for version in range(2, 6)},
    # The first record of an event file says `brain.Event:2`, and is 24 bytes long.
    b"\x18\0\0\0\0\0\0\0\xa3\x7fK\x22": _events,
}
