"""Reads the content of a file, leaf by leaf: tensors, numbers, texts; its bytes where the format cannot be read.

Nothing in a file is run: classes in a pickle are only names. Each leaf is kept as text, and a long one as its digest,
so that the files of two runs can be compared after they were deleted.
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
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from io import BytesIO, StringIO
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from samebits.bits.raw import digest_of_blocks, raw_digest
from samebits.comparison.pickles import Unpickled, leaves, read_next, read_pickle

# A larger file is digested whole, a longer text is kept as its digest, and a file with more leaves counts by its bytes;
# of a text with more lines, the later ones count together.
MOST_BYTES, MOST_SHOWN, MOST_LEAVES = 1 << 31, 2000, 1 << 17
_BLOCK = 1 << 22
_DIGEST = re.compile(r"\b(bytes|text) [0-9a-f]{16}$")
# A member of torch's archives: a checksum of the members' names, which begin with the name of the file.
_CHECKSUM = ".data/serialization_id"
_REBUILT = "torch._utils._rebuild_tensor_v2"
# torch's format before 1.6, in which tensors in a plain pickle are still stored: it names storages by addresses.
_MAGIC, _INSIDE = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "torch.storage._load_from_bytes"
_WIDTHS = {"Double": 8, "Long": 8, "ComplexFloat": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2}
_WIDTHS |= {"ComplexDouble": 16, "Char": 1, "Byte": 1, "Bool": 1}

Content = dict[str, str]
Rewrite = Callable[[str], str]


def content_of(path: Path, said: Rewrite = str) -> Content:
    """Return the leaves of a file as text; `said` rewrites each, so that runs name their own folders alike."""
    if os.path.getsize(path) > MOST_BYTES:
        with path.open("rb") as file:
            return {"": _bytes(digest_of_blocks(iter(lambda: file.read(_BLOCK), b"")))}
    return content(path.read_bytes(), said, str(path))


def content(raw: bytes, said: Rewrite = str, path: str = "") -> Content:
    """Return the leaves of a file's bytes; `path` is the file, for formats that are read from disk."""
    for read in (*(one for begins, one in _FORMATS.items() if raw.startswith(begins)), *_RECOGNIZED_BY_READING):
        with suppress(Exception):  # it only looks like this format, or is cut off
            return _kept(read(raw, path), said)
    return {"": _bytes(raw_digest(raw))}


def text_content(text: Iterable[str], said: Rewrite = str) -> Content:
    """Return the leaves of a text: its lines, and one digest of all lines after the first 131,071."""
    lines = _lines(text)
    first = list(islice(lines, MOST_LEAVES - 1))
    kept = _kept(((f"line {number}", line) for number, line in enumerate(first, 1)), said)
    later = next(lines, None)
    if later is not None:
        blocks = (f"{said(line)}\n".encode(errors="surrogatepass") for line in chain([later], lines))
        kept[f"line {MOST_LEAVES} and later"] = _text_digest(digest_of_blocks(blocks))
    return kept


def _lines(text: Iterable[str]) -> Iterator[str]:
    """The lines of a text, without their ends, and without empty ones at the end."""
    empty = 0
    for line in (line.rstrip("\r\n") for line in text):
        if line:
            yield from [""] * empty
            yield line
        empty = 0 if line else empty + 1


def as_shown(line: str) -> str:
    r"""Return a line as a terminal shows it: after a carriage return, text replaces what stands there.

    >>> as_shown("loss 0.53 \rdone")
    'done 0.53 '
    """
    shown = ""
    for text in line.rstrip("\r\n").split("\r"):
        shown = text + shown[len(text) :]
    return shown


def _kept(found: Iterator[tuple[str, object]], said: Rewrite) -> Content:
    kept: Content = {}
    for path, leaf in found:
        # Leaves that share a name are kept apart.
        name = path if path not in kept else f"{path}#{len(kept)}"
        kept[name] = _shown(leaf, said)
        if len(kept) > MOST_LEAVES:
            raise ValueError("too many leaves")
    return kept


def _shown(leaf: object, said: Rewrite) -> str:
    if isinstance(leaf, str):
        text = said(leaf)
        return text if len(text) <= MOST_SHOWN else _text_digest(raw_digest(text.encode(errors="surrogatepass")))
    if isinstance(leaf, bytes | bytearray):
        return _bytes(raw_digest(bytes(leaf)))
    if isinstance(leaf, float):
        # repr shows every bit of a float, but not which NaN it is.
        return "nan" if math.isnan(leaf) else repr(leaf)
    # A class is shown by its name.
    return repr(leaf) if leaf is None or isinstance(leaf, int | complex) else getattr(leaf, "name", str(leaf))


def is_digest(leaf: str) -> bool:
    """Whether a leaf was kept as a digest."""
    return _DIGEST.search(leaf) is not None


def _text_digest(digest: int) -> str:
    return f"text {digest:016x}"


def _bytes(digest: int) -> str:
    return f"bytes {digest:016x}"


# ---- formats


def _zip(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    """The leaves of each member of a zip archive, named without the top folder that all members share."""
    with zipfile.ZipFile(BytesIO(raw)) as file:
        names = [name for name in file.namelist() if not name.endswith("/")]
        top_folders = {name.partition("/")[0] for name in names}
        prefix = f"{top_folders.pop()}/" if len(top_folders) == 1 and all("/" in name for name in names) else ""
        members = {name.removeprefix(prefix): name for name in names}
        used = set[str]()

        def storage(pid: Any) -> object:
            # ("storage", class, key, device, elements): torch/serialization.py
            _, kind, key, device, count = pid
            if f"data/{key}" not in members:
                # Constants of TorchScript and members of a torch.package lie elsewhere.
                raise ValueError(key)
            used.add(f"data/{key}")
            return _Storage(file.read(members[f"data/{key}"]), kind, str(device), int(count))

        pickled = [name for name in members if name.endswith(".pkl")]
        for name in pickled:
            label = "" if name == "data.pkl" else f"{name}: "
            try:
                tree = read_pickle(file.read(members[name]), storage)
                pairs = [*leaves(tree, whole=_tensor)]
            except ValueError:
                pairs = [("", file.read(members[name]))]
            yield from ((f"{label}{path}", leaf) for path, leaf in pairs)
        for name in members:
            if name not in used and name not in pickled and not name.endswith(_CHECKSUM):
                member = file.read(members[name])
                member = _declared_in_order(member) if name.startswith("code/") else member
                yield from _inside(name, member)


def _inside(name: str, raw: bytes) -> Iterator[tuple[str, object]]:
    """The leaves of an archive's member, named after it."""
    return ((f"{name}: {path}" if path else name, leaf) for path, leaf in content(raw).items())


def _declared_in_order(code: bytes) -> bytes:
    """Sort the lines of constants in TorchScript code, `mode : Final[str] = "mean"`: torch writes them in set order."""
    lines = code.split(b"\n")
    groups = groupby(lines, lambda line: b" : Final[" in line)
    return b"\n".join(line for are_constants, group in groups for line in (sorted(group) if are_constants else group))


class _Storage:
    """A storage of torch: the bytes behind one or more tensors."""

    def __init__(self, raw: bytes, kind: type, device: str, count: int) -> None:
        self.raw, self.device, self.count = raw, device, count
        self.kind = getattr(kind, "name", str(kind)).rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.kind} {self.device} {_bytes(raw_digest(self.raw))}"

    def part(self, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> str:
        """Return a tensor's digest; where it is not contiguous, its place in the storage, and the digest of that."""
        width = len(self.raw) // self.count if self.count else 0
        dense_strides, elements = [], 1
        for size in reversed(sizes):
            dense_strides.append(elements)
            elements *= size
        is_dense = all(s == d or n == 1 for s, d, n in zip(strides, reversed(dense_strides), sizes, strict=True))
        if is_dense and width:
            return _bytes(raw_digest(self.raw[offset * width : (offset + elements) * width]))
        return f"from {offset} by {list(strides)} of {_bytes(raw_digest(self.raw))}"


def _tensor(one: Unpickled) -> object:
    """Return the text that represents a tensor; None for any other object."""
    arguments = one.parts.get("")
    if one.name != _REBUILT or not isinstance(arguments, tuple):
        return None
    storage, offset, sizes, strides = arguments[:4]
    if isinstance(storage, Unpickled) and storage.name == _INSIDE:
        storage = _old_format(cast("tuple[bytes]", storage.parts[""])[0])
    if not isinstance(storage, _Storage):
        return None
    shown = storage.part(offset, sizes, strides)
    return f"{storage.kind.removesuffix('Storage')} {list(sizes)} on {storage.device} {shown}"


def _pickle(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    tree = _old_format(raw) if raw.startswith(_MAGIC) else read_pickle(raw)
    return leaves(tree, whole=_tensor)


def _old_format(raw: bytes) -> object:
    """Read magic number, protocol, system, the saved object, keys of storages, and each storage behind its length."""
    file, storages = BytesIO(raw), dict[object, _Storage]()
    for _ in range(3):
        read_next(file)

    def storage(pid: Any) -> object:
        # ("storage", class, key, device, elements, None): torch/serialization.py, _legacy_save
        _, kind, key, device, count, view = pid
        if view is not None:
            raise ValueError("a view of a storage")
        return storages.setdefault(key, _Storage(b"", kind, str(device), int(count)))

    saved = read_next(file, storage)
    for key in cast("list[object]", read_next(file)):
        width = _WIDTHS[storages[key].kind.removesuffix("Storage")]
        storages[key].raw = file.read(int.from_bytes(file.read(8), "little") * width)
    if file.read(1):
        raise ValueError("something follows the storages")
    return saved


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
    for name, entry in header.items():
        if name == "__metadata__":
            yield from leaves(entry, "metadata")
        else:
            begin, end = entry["data_offsets"]
            yield name, f"{entry['dtype']} {entry['shape']} {_bytes(raw_digest(data[begin:end]))}"


def _sqlite(_: bytes, path: str) -> Iterator[tuple[str, object]]:
    if not path:
        raise ValueError("a database in an archive")  # sqlite would open an empty one
    with closing(sqlite3.connect(f"file:{quote(path)}?mode=ro&immutable=1", uri=True)) as database:
        tables = database.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        for name, sql in tables:
            yield f"{name}: table", sql
            quoted = name.replace('"', '""')
            for number, row in enumerate(database.execute(f'SELECT * FROM "{quoted}"')):
                yield from ((f"{name}[{number}][{column}]", value) for column, value in enumerate(row))


def _packed(unpack: Callable[[bytes], bytes]) -> Callable[[bytes, str], Iterator[tuple[str, object]]]:
    return lambda raw, _: iter(content(unpack(raw)).items())


def _tar(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    """The leaves of each member of a tar archive; times and owners are left out."""
    if raw[257:262] != b"ustar":
        raise ValueError("no tar")
    with tarfile.open(fileobj=BytesIO(raw)) as file:
        for member in file:
            reader = file.extractfile(member) if member.isfile() else None
            if reader is None:
                yield f"{member.name}: kind", f"{member.type!r} {member.linkname}"
            else:
                yield from _inside(member.name, reader.read())


def _json(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    tree = json.loads(raw.decode())
    if not isinstance(tree, dict | list):
        raise ValueError("a text")
    return leaves(tree)


def _text(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    if b"\0" in raw:
        raise ValueError("no text")
    return iter(text_content(StringIO(raw.decode())).items())


def _events(raw: bytes, _: str) -> Iterator[tuple[str, object]]:
    """The fields of a TensorBoard event file: records with their lengths (TFRecord), each a protocol buffer message."""
    at = number = 0
    while at < len(raw):
        length = int.from_bytes(raw[at : at + 8], "little")
        record = raw[at + 12 : at + 12 + length]
        if len(record) != length:
            raise ValueError("cut off")
        yield from _message(record, f"record {number}")
        at, number = at + 16 + length, number + 1


def _message(raw: bytes, path: str) -> Iterator[tuple[str, object]]:
    """The fields of a protocol buffer message, by number; a field with a length is read as a message where possible."""
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
            fields = [*_message(part, name)] if kind == 2 and part else []
        except (ValueError, KeyError, IndexError):
            fields = []
        yield from fields or [(name, part)]


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
    b"]\0\0": _packed(lzma.decompress),
    # zlib's first byte, and its second one by how hard it tries.
    **{b"x" + level: _packed(zlib.decompress) for level in (b"\x01", b"^", b"\x9c", b"\xda")},
    **{bytes([0x80, version]): _pickle for version in range(2, 6)},
    # The first record of an event file says `brain.Event:2`, and is 24 bytes long.
    b"\x18\0\0\0\0\0\0\0\xa3\x7fK\x22": _events,
}
# Formats that do not begin with a fixed sequence of bytes.
_RECOGNIZED_BY_READING = (_safetensors, _tar, _json, _text)
