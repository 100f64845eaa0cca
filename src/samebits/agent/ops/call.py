"""One call of an operation, taken apart: its tensors, its numbers, and what distinguishes kinds of calls."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Mapping
from typing import Any

import torch

from samebits.agent.ops.places import OpPlace
from samebits.agent.ops.schemas import OpSchema
from samebits.base.sites import user_file_path
from samebits.runfolder.ops import OpKind

_WORD, _DOUBLE = struct.Struct("<Q"), struct.Struct("<d")


class CallForm:
    """The form that similar calls of one operation share: dtypes, shapes, and all values but floats."""

    def __init__(self, schema: OpSchema, args: tuple[object, ...], kwargs: Mapping[str, Any]) -> None:
        self.schema = schema
        given = [*zip(schema.arguments, args, strict=False), *kwargs.items()]
        # The names of the tensors, in the order of the call: `self`, `tensors[0]`.
        self.names = tuple(name for argument, value in given for name in _names_in(argument, value))
        arguments = [name.partition("[")[0] for name in self.names]
        # The schema of a custom operation need not say which arguments it writes without reading them.
        unread = schema.write_only if schema.is_builtin else schema.write_only - schema.writes
        reads = not (schema.is_view or schema.is_uninitialized)
        # The indices of the tensors whose values the call may use; and of those that it changes.
        self.reads = tuple(at for at, argument in enumerate(arguments) if reads and argument not in unread)
        self.writes = tuple(at for at, argument in enumerate(arguments) if argument in schema.writes)
        self.written = tuple(self.names[at] for at in self.writes)
        # `(self=float32[2, 3], 1)`
        self.words = f"({', '.join(f'{name}={_value(value)}' for name, value in given)})"
        # The ids of its kinds, by place and names of the evidence.
        self.kinds: dict[object, int] = {}


class Call:
    """One call of an operation, with its tensors."""

    __slots__ = (
        *("args", "evidence", "floats", "form", "func", "generator", "is_late", "kwargs", "place", "read", "signature"),
        *("kept_operands", "tensors"),
    )

    form: CallForm
    place: OpPlace
    read: tuple[int | str, ...]  # inputs that there is evidence of: indices of tensors, names of all else
    evidence: list[int]  # of what it reads, and after the call also of what it wrote
    kept_operands: Any  # its `Operands` if they may have to be kept, else None
    is_late: bool  # the call may return before the operation is done

    def __init__(
        self, schema: OpSchema, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs
        # All tensors, in the order of `form.names`.
        self.tensors: list[torch.Tensor] = []
        # Numbers that may change from step to step; they are evidence, not another form.
        self.floats: list[float] = []
        # The generator that it draws from.
        self.generator: torch.Generator | None = None
        # The key by which forms are distinguished.
        self.signature = (schema.name, len(args), *kwargs, *map(self._signed, (*args, *kwargs.values())))

    def _signed(self, value: object) -> object:
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            return value.dtype, value.shape
        if isinstance(value, float | complex):
            self.floats += (value.real, value.imag) if isinstance(value, complex) else (value,)
            return type(value)
        if isinstance(value, list | tuple):
            return tuple([self._signed(one) for one in value])
        if isinstance(value, torch.Generator):
            self.generator = value
            return torch.Generator
        return value

    @property
    def schema(self) -> OpSchema:
        return self.form.schema

    @property
    def named(self) -> list[tuple[str, torch.Tensor]]:
        """The tensors, each with the name of its argument."""
        return list(zip(self.form.names, self.tensors, strict=True))


def _names_in(name: str, value: object) -> list[str]:
    if isinstance(value, torch.Tensor):
        return [name]
    if isinstance(value, list | tuple):
        return [inner for i, one in enumerate(value) for inner in _names_in(f"{name}[{i}]", one)]
    return []


def exact(floats: list[float]) -> int:
    """Return 64 bits in which every bit of every number counts."""
    if len(floats) == 1:
        word: int = _WORD.unpack(_DOUBLE.pack(floats[0]))[0]
        return word
    raw = struct.pack(f"<{len(floats)}d", *floats)
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "little")


def flat_tensors(result: object) -> list[torch.Tensor]:
    """Return every tensor of a result, which may be nested."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, list | tuple):
        return [tensor for one in result for tensor in flat_tensors(one)]
    return []


def kind_of(form: CallForm, place: OpPlace, ins: tuple[str, ...], outs: tuple[str, ...]) -> OpKind:
    """Return the kind of calls of this form at a place, with the names of their evidence."""
    path, line, function = place.line
    return OpKind(
        form.schema.name,
        place.pass_,
        place.module,
        user_file_path(os.path.abspath(path)) if path and not path.startswith("<") else path,
        line,
        function,
        place.backward_of,
        arguments=form.words,
        ins=ins,
        outs=outs,
        is_view=form.schema.is_view,
    )


def _value(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float | complex):
        return "…"
    if isinstance(value, bool | int | str) or value is None or type(value).__module__ == "torch":
        return str(value).removeprefix("torch.")
    return type(value).__name__
