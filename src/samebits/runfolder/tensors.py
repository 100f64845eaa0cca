"""Whole tensors of one step, kept in the safetensors format, which many tools read.

The user's program writes them, with torch; outside, they are read without torch. A dtype that the format does not know
is kept as bytes (`U8`); `samebits` in the file's metadata then maps, as JSON, the tensor's name to dtype and shape.
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

from samebits.base.records import from_data
from samebits.runfolder.reading import damage_described, parse_json, read_bytes, safe_files

if TYPE_CHECKING:
    import torch

_LENGTH = struct.Struct("<Q")
# torch's name of a dtype → the format's. Newer versions of the format know more, but a reader may have an older one.
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
class KeptTensor:
    """One tensor as bytes.

    Attributes:
        dtype: torch's name of the dtype, without `torch.`.
        raw: the elements, row-major and little-endian.
    """

    dtype: str
    shape: tuple[int, ...]
    raw: bytes

    @property
    def is_whole(self) -> bool:
        """Whether there are as many bytes as dtype and shape require."""
        elements = math.prod(self.shape)
        each = _SIZES.get(self.dtype) or len(self.raw) // max(1, elements)
        return min(self.shape, default=0) >= 0 and len(self.raw) == elements * each


def file_name(rank: int, step: int, stream: str, part: int = 0) -> str:
    """Return the name of the file that keeps the tensors of one stream of one step."""
    return f"rank{rank}.step{step}.{stream}.{part}.safetensors"


def keep(folder: Path, rank: int, step: int, stream: str, named: Iterable[tuple[str, object]]) -> None:
    """Write the tensors of a stream to a new file; a stream that comes several times in a step gets several files."""
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
    """Write tensors to the file `path`."""
    path.write_bytes(_encoded(named))


def _encoded(named: Iterable[tuple[str, object]]) -> bytes:
    head: dict[str, object] = {}
    bare: dict[str, object] = {}
    data: list[bytes] = []
    at = 0
    # Each name once: the format forbids bytes that no entry of the header refers to.
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
    """Return the elements as bytes, row-major and little-endian; of a DTensor, the local part."""
    return _bytes_of(_dense(tensor))


def _dense(tensor: Any) -> Any:
    """Return the tensor strided, contiguous and on the CPU; of a DTensor, the local part."""
    torch = sys.modules["torch"]
    # A transform of torch.func that is active would wrap the copy again.
    with torch.no_grad(), getattr(torch._C, "_DisableFuncTorch", nullcontext)():
        local = getattr(tensor, "_local_tensor", tensor)
        dense = local.detach().cpu().to_dense() if local.layout is not torch.strided else local.detach().cpu()
        return dense.resolve_conj().resolve_neg().contiguous()


def _bytes_of(dense: torch.Tensor) -> bytes:
    return ctypes.string_at(dense.data_ptr(), dense.numel() * dense.itemsize) if dense.numel() else b""


def read_kept(folder: Path, rank: int, step: int, stream: str) -> dict[str, KeptTensor]:
    """Read the tensors kept for one stream of one step; empty when none were."""
    tensors: dict[str, KeptTensor] = {}
    pattern = file_name(rank, step, stream).replace(".0.", ".*.")
    for path in sorted(safe_files(folder, f"values/{pattern}")):
        tensors |= read_tensors(path, folder)
    return tensors


def read_tensors(path: Path, folder: Path | None = None) -> dict[str, KeptTensor]:
    """Read all tensors of a file in `folder`, by default the file's own; RecordingError where the file is damaged."""
    raw = read_bytes(path, folder or path.parent)
    with damage_described(path, "is damaged"):
        return dict(_decoded(raw))


def _decoded(raw: bytes) -> Iterator[tuple[str, KeptTensor]]:
    (length,) = _LENGTH.unpack_from(raw)
    at = start = _LENGTH.size + length
    head = cast("dict[str, Any]", parse_json(raw[_LENGTH.size : start]))
    bare = cast("dict[str, Any]", parse_json(head.pop(_METADATA, {}).get(_OURS, "{}")))
    for name, entry in head.items():
        begin, end = entry["data_offsets"]
        form = bare.get(name, {"dtype": _NAMES.get(entry["dtype"], entry["dtype"]), "shape": entry["shape"]})
        kept = KeptTensor(
            str(form["dtype"]), from_data(tuple[int, ...], form["shape"]), raw[start + begin : start + end]
        )
        if start + begin != at or end - begin != len(kept.raw) or not kept.is_whole:
            raise ValueError(f"{name} is not where the header says")
        at += len(kept.raw)
        yield name, kept
