"""Whole tensors kept at one step, in plain files that anything can read (the safetensors layout).

Written inside the user's program, with torch; read outside, without it.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Kept:
    """One tensor as bytes.

    Attributes:
        dtype: torch's name for it, without `torch.`.
        shape: as in torch.
        raw: row-major, little-endian.
    """

    dtype: str
    shape: tuple[int, ...]
    raw: bytes


def file_name(rank: int, step: int, stream: str, part: int = 0) -> str:
    """Where the tensors of one stream of one step are kept."""
    return f"rank{rank}.step{step}.{stream}.{part}.safetensors"


def keep(folder: Path, rank: int, step: int, stream: str, named: Iterable[tuple[str, Any]]) -> None:
    """Write tensors beside the recording. A stream met several times in one step gets several files."""
    folder.mkdir(exist_ok=True)
    encoded = _encoded(named)
    # Names are tried one after the other: listing the folder would count as a listing made by the user's program.
    for part in itertools.count():
        try:
            with (folder / file_name(rank, step, stream, part)).open("xb") as file:
                file.write(encoded)
            return
        except FileExistsError:
            continue


def write_tensors(path: Path, named: Iterable[tuple[str, Any]]) -> None:
    """Write tensors to a file of this name."""
    path.write_bytes(_encoded(named))


def _encoded(named: Iterable[tuple[str, Any]]) -> bytes:
    head: dict[str, Any] = {}
    data: list[bytes] = []
    at = 0
    for name, tensor in named:
        raw = bytes_of(tensor)
        dtype = str(tensor.dtype).removeprefix("torch.")
        head[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    encoded = json.dumps(head).encode()
    return _LENGTH.pack(len(encoded)) + encoded + b"".join(data)


def bytes_of(tensor: Any) -> bytes:
    """Row-major, little-endian; of a DTensor the local part."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        local = getattr(tensor, "_local_tensor", tensor)
        flat = local.detach().cpu().to_dense() if local.layout is not torch.strided else local.detach().cpu()
        flat = flat.resolve_conj().resolve_neg().contiguous().reshape(-1)
        if flat.numel() == 0:
            return b""
        return ctypes.string_at(flat.data_ptr(), flat.numel() * flat.itemsize)


def read_kept(folder: Path, rank: int, step: int, stream: str) -> dict[str, Kept]:
    """The tensors kept for one stream of one step; empty when none were."""
    found: dict[str, Kept] = {}
    pattern = file_name(rank, step, stream).replace(".0.", ".*.")
    for path in sorted((folder / "values").glob(pattern)):
        found |= read_tensors(path)
    return found


def read_tensors(path: Path) -> dict[str, Kept]:
    """Every tensor of one file."""
    raw = path.read_bytes()
    (length,) = _LENGTH.unpack_from(raw)
    start = _LENGTH.size + length
    found: dict[str, Kept] = {}
    for name, entry in json.loads(raw[_LENGTH.size : start]).items():
        begin, end = entry["data_offsets"]
        found[name] = Kept(entry["dtype"], tuple(entry["shape"]), raw[start + begin : start + end])
    return found
