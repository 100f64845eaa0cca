"""Whole tensors kept at one step, as safetensors, which anything can read.

Written inside the user's program, with torch; read outside, without it. A dtype for which the format has no word is
kept as bytes (`U8`); `samebits` in the file's metadata then holds, as JSON, its dtype and shape by the tensor's name.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import re
import struct
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from samebits.base.errors import RecordingError
from samebits.base.records import from_data
from samebits.runfolder.reading import parsed, read_bytes, safe_files

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
_SIZES = {name: int((re.findall(r"\d+", name) or ["8"])[0]) // 8 for name in _CODES}
_METADATA, _OURS = "__metadata__", "samebits"


@dataclass(frozen=True)
class Kept:
    """One tensor as bytes.

    Attributes:
        dtype: torch's name for it, without `torch.`.
        raw: row-major, little-endian.
    """

    dtype: str
    shape: tuple[int, ...]
    raw: bytes

    @property
    def is_whole(self) -> bool:
        """Whether there are as many bytes as dtype and shape ask for."""
        elements = math.prod(self.shape)
        each = _SIZES.get(self.dtype) or len(self.raw) // max(1, elements)
        return min(self.shape, default=0) >= 0 and len(self.raw) == elements * each


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
    # Where a transform of torch.func is at work, it would wrap the copy anew.
    with torch.no_grad(), getattr(torch._C, "_DisableFuncTorch", nullcontext)():
        local = getattr(tensor, "_local_tensor", tensor)
        dense = local.detach().cpu().to_dense() if local.layout is not torch.strided else local.detach().cpu()
        return dense.resolve_conj().resolve_neg().contiguous()


def _bytes_of(dense: torch.Tensor) -> bytes:
    return ctypes.string_at(dense.data_ptr(), dense.numel() * dense.itemsize) if dense.numel() else b""


def read_kept(folder: Path, rank: int, step: int, stream: str) -> dict[str, Kept]:
    """The tensors kept for one stream of one step; empty when none were."""
    found: dict[str, Kept] = {}
    pattern = file_name(rank, step, stream).replace(".0.", ".*.")
    for path in sorted(safe_files(folder, f"values/{pattern}")):
        found |= read_tensors(path, folder)
    return found


def read_tensors(path: Path, folder: Path | None = None) -> dict[str, Kept]:
    """Every tensor of one file, in its own folder or another; RecordingError where it is not as it was written."""
    raw = read_bytes(path, folder or path.parent)
    try:
        return dict(_decoded(raw))
    except (struct.error, AttributeError, LookupError, TypeError, ValueError) as error:
        raise RecordingError(f"{path} is damaged: {error}", "was it edited?") from error


def _decoded(raw: bytes) -> Iterator[tuple[str, Kept]]:
    (length,) = _LENGTH.unpack_from(raw)
    at = start = _LENGTH.size + length
    head = cast("dict[str, Any]", parsed(raw[_LENGTH.size : start]))
    bare = cast("dict[str, Any]", parsed(head.pop(_METADATA, {}).get(_OURS, "{}")))
    for name, entry in head.items():
        begin, end = entry["data_offsets"]
        own = bare.get(name, {"dtype": _NAMES.get(entry["dtype"], entry["dtype"]), "shape": entry["shape"]})
        kept = Kept(str(own["dtype"]), from_data(tuple[int, ...], own["shape"]), raw[start + begin : start + end])
        if start + begin != at or end - begin != len(kept.raw) or not kept.is_whole:
            raise ValueError(f"{name} is not where the header says")
        at += len(kept.raw)
        yield name, kept
