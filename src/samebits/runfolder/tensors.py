"""Whole tensors kept at one step, as safetensors, which anything can read.

Written inside the user's program, with torch; read outside, without it. A dtype for which the format has no word is
kept as bytes (`U8`); `samebits` in the file's metadata then holds, as JSON, its dtype and shape by the tensor's name.
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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_LENGTH = struct.Struct("<Q")
# torch's name → that of the format. Newer versions of the format know more; a reader may have an older one.
_CODES = {
    "bool": "BOOL",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
_NAMES = {code: name for name, code in _CODES.items()}
_METADATA, _OURS = "__metadata__", "samebits"


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


def keep(folder: Path, rank: int, step: int, stream: str, named: Iterable[tuple[str, object]]) -> None:
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


def write_tensors(path: Path, named: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Write tensors to a file of this name."""
    path.write_bytes(_encoded(named))


def _encoded(named: Iterable[tuple[str, object]]) -> bytes:
    head: dict[str, object] = {}
    bare: dict[str, object] = {}
    data: list[bytes] = []
    at = 0
    # By name once: bytes that no entry of the header speaks of are an error to the format.
    for name, tensor in dict(named).items():
        dense = _dense(tensor)
        raw, dtype, shape = _bytes_of(dense), str(dense.dtype).removeprefix("torch."), list(dense.shape)
        if dtype not in _CODES:
            bare[name] = {"dtype": dtype, "shape": shape}
            shape = [len(raw)]
        head[name] = {"dtype": _CODES.get(dtype, "U8"), "shape": shape, "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    if bare:
        head[_METADATA] = {_OURS: json.dumps(bare)}
    encoded = json.dumps(head).encode()
    encoded += b" " * (-len(encoded) % _LENGTH.size)
    return _LENGTH.pack(len(encoded)) + encoded + b"".join(data)


def bytes_of(tensor: torch.Tensor) -> bytes:
    """Row-major, little-endian; of a DTensor the local part."""
    return _bytes_of(_dense(tensor))


def _dense(tensor: Any) -> Any:
    """Strided, contiguous and on the CPU; of a DTensor the local part."""
    torch = sys.modules["torch"]
    with torch.no_grad():
        local = getattr(tensor, "_local_tensor", tensor)
        dense = local.detach().cpu().to_dense() if local.layout is not torch.strided else local.detach().cpu()
        return dense.resolve_conj().resolve_neg().contiguous()


def _bytes_of(dense: torch.Tensor) -> bytes:
    return ctypes.string_at(dense.data_ptr(), dense.numel() * dense.itemsize) if dense.numel() else b""


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
    head = json.loads(raw[_LENGTH.size : start])
    bare = json.loads(head.pop(_METADATA, {}).get(_OURS, "{}"))
    for name, entry in head.items():
        begin, end = entry["data_offsets"]
        entry_of = bare.get(name, {"dtype": _NAMES.get(entry["dtype"], entry["dtype"]), "shape": entry["shape"]})
        found[name] = Kept(entry_of["dtype"], tuple(entry_of["shape"]), raw[start + begin : start + end])
    return found
