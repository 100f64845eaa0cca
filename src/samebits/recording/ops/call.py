"""One call of an operation, looked through: its tensors, its numbers, and what tells kinds of calls apart."""

from __future__ import annotations

import hashlib
import os
import struct
from typing import Any

import torch

from samebits.recording.ops.places import Place
from samebits.recording.ops.schemas import OpSchema
from samebits.recording.ops.table import OpKind

_WORD, _DOUBLE = struct.Struct("<Q"), struct.Struct("<d")


class Call:
    """One call, looked through.

    Attributes:
        signature: what tells kinds of calls apart: dtype and shape of tensors, all else as it is, but for floats.
        tensors: each with the argument's name.
        floats: numbers that may change from step to step; they are evidence, not another kind of call.
        generator: an explicit one.
    """

    __slots__ = ("floats", "generator", "place", "positional", "schema", "signature", "tensors")

    def __init__(self, schema: OpSchema, place: Place, args: Any, kwargs: Any) -> None:
        self.schema, self.place = schema, place
        self.tensors: list[tuple[str, Any]] = []
        self.floats: list[float] = []
        self.generator: Any = None
        self.positional = len(args)
        self.signature = [self._signed(name, value) for name, value in zip(schema.arguments, args, strict=False)]
        for name, value in kwargs.items():
            self.signature += (name, self._signed(name, value))

    def _signed(self, name: str, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            self.tensors.append((name, value))
            return value.dtype, value.shape
        if isinstance(value, float | complex):
            self.floats += (value.real, value.imag) if isinstance(value, complex) else (value,)
            return float
        if isinstance(value, list | tuple):
            return tuple([self._signed(f"{name}[{i}]", one) for i, one in enumerate(value)])
        if isinstance(value, torch.Generator):
            self.generator = value
            return torch.Generator
        return value

    def in_words(self) -> str:
        """`(self=float32[2, 3], 1)`."""
        words = [f"{name}={_value(value)}" for name, value in zip(self.schema.arguments, self.signature, strict=False)]
        named = self.signature[self.positional :]
        words[self.positional :] = [f"{named[i]}={_value(named[i + 1])}" for i in range(0, len(named), 2)]
        return f"({', '.join(words)})"


def exact(floats: list[float]) -> int:
    """Every bit of every number counts."""
    if len(floats) == 1:
        found: int = _WORD.unpack(_DOUBLE.pack(floats[0]))[0]
        return found
    raw = struct.pack(f"<{len(floats)}d", *floats)
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


def tensors_in(result: Any) -> list[Any]:
    """Every tensor of a result, which may be nested."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, list | tuple):
        return [tensor for one in result for tensor in tensors_in(one)]
    return []


def kind_of(call: Call, ins: tuple[str, ...], outs: tuple[str, ...]) -> OpKind:
    """The kind of this call, with the names of its evidence."""
    place = call.place
    path, line, function = place.line
    return OpKind(
        call.schema.name,
        place.pass_,
        place.module,
        os.path.abspath(path) if path and not path.startswith("<") else path,
        line,
        function,
        place.backward_of,
        arguments=call.in_words(),
        ins=ins,
        outs=outs,
        is_view=call.schema.is_view,
    )


def _value(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], torch.dtype):
        return f"{str(value[0]).removeprefix('torch.')}{list(value[1])}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if value is float:
        return "…"
    if isinstance(value, bool | int | str) or value is None or type(value).__module__ == "torch":
        return str(value).removeprefix("torch.")
    return type(value).__name__
