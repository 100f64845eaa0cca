"""The operands of one operation on disk: everything that is needed to call it again, anywhere.

`rank0.step3.op1482.json` holds the call, `….safetensors` beside it the bytes: what it was called with as `in.0`,
`in.1` …, what it made as `out.0` …. A tensor is kept with its strides, because kernels are chosen by them.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch

from samebits.agent.ops.call import tensors_in
from samebits.bits.digest import digests, is_evidence, unobserved
from samebits.factors.catalog import CATALOG
from samebits.factors.switches import attributes
from samebits.runfolder.ops import operands_name
from samebits.runfolder.tensors import Kept, bytes_of, read_tensors, write_tensors

# Switches that no factor needs, because programs hardly ever touch them.
_LIBRARIES = ("backends.mkldnn.enabled", "backends.cudnn.enabled")


class Operands:
    """One call, taken apart before it is made.

    Args:
        names: of the positional arguments.
        copied: arguments that the call will change; they are copied now.
        state: of the generator that it will draw from; None if it draws from none.
    """

    def __init__(
        self, names: tuple[str, ...], args: Any, kwargs: Any, copied: frozenset[str], state: object = None
    ) -> None:
        self.state = state
        self.tensors: list[Any] = []
        self.views: list[dict[str, object] | None] = []
        self.labels: list[str] = []
        self._numbers: dict[int, int] = {}
        given = [*zip(names, args, strict=False), *kwargs.items()]
        # A tensor that is read as one argument and written as another is one tensor.
        self._copied = {id(t) for name, value in given if name in copied for t in tensors_in(value)}
        self.arguments = [self._encoded(value, name) for name, value in given[: len(args)]]
        self.keywords = {name: self._encoded(value, name) for name, value in kwargs.items()}

    def _encoded(self, value: object, name: str) -> object:
        if isinstance(value, torch.Tensor):
            number = self._numbers.get(id(value))
            if number is None:
                number = self._numbers[id(value)] = len(self.tensors)
                self.views.append(_look(value) if is_evidence(value) else None)
                self.tensors.append(_copied(value) if id(value) in self._copied and is_evidence(value) else value)
                self.labels.append(name)
            return {"tensor": number}
        if isinstance(value, list | tuple):
            return {"list": [self._encoded(v, f"{name}[{i}]") for i, v in enumerate(value)]}
        if isinstance(value, torch.Generator):
            return {"generator": str(value.device)}
        if isinstance(value, bool | int | str) or value is None:
            return {"value": value}
        if isinstance(value, float):
            return {"float": value.hex()}
        if isinstance(value, complex):
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
            return {"torch": str(value)}
        if isinstance(value, torch.device):
            return {"device": str(value)}
        return {"unknown": repr(value)}


def keep_operands(
    folder: Path, rank: int, place: tuple[int, int], call: dict[str, object], operands: Operands, results: list[Any]
) -> None:
    """Write the call and its results; what was there before is replaced."""
    folder.mkdir(exist_ok=True)
    step, index = place
    name = operands_name(rank, step, index)
    kept = [(f"in.{i}", tensor) for i, tensor in enumerate(operands.tensors)]
    kept += [(f"out.{i}", tensor) for i, tensor in enumerate(results)]
    if operands.state is not None:
        kept.append(("state", operands.state))
    evident = [(label, tensor) for label, tensor in kept if is_evidence(tensor)]
    # Of what was copied, how the original lay, and where.
    views = {label: _look(tensor) for label, tensor in evident}
    views |= {f"in.{i}": look for i, look in enumerate(operands.views) if look is not None and f"in.{i}" in views}
    content = {
        **call,
        "step": step,
        "index": index,
        "rank": rank,
        "arguments": operands.arguments,
        "keywords": operands.keywords,
        "labels": operands.labels,
        "views": views,
        "digests": dict(zip([label for label, _ in evident], digests([t for _, t in evident]), strict=True)),
        "results": len(results),
        "sha256": _sha256(results),
        "settings": _settings(),
        "environment": _environment(),
        "torch": torch.__version__,
    }
    write_tensors(folder / f"{name}.safetensors", evident)
    (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def read_kept_tensors(path: Path) -> dict[str, object]:
    """The tensors kept with such a file: `in.0` …, `out.0` … and `state`."""
    return {label: _tensor(kept) for label, kept in read_tensors(path.with_suffix(".safetensors")).items()}


def _tensor(kept: Kept) -> object:
    dtype = getattr(torch, kept.dtype)
    if not kept.raw:
        return torch.empty(kept.shape, dtype=dtype)
    return torch.frombuffer(bytearray(kept.raw), dtype=torch.uint8).view(dtype).view(kept.shape)


def _sha256(tensors: list[torch.Tensor]) -> str:
    """Of dtype, shape and every bit, as the reproducer computes it."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(f"{tensor.dtype}{list(tensor.shape)}".encode())
        found.update(bytes_of(tensor))
    return found.hexdigest()


def _copied(tensor: torch.Tensor) -> object:
    with unobserved():
        plain = tensor.detach()
        if plain.layout is not torch.strided:
            return plain.clone()
        if 0 in plain.stride():
            return plain.clone()
        # As it lies: `clone` makes dense what is not. To the host, where it goes anyway: a fused step writes to all
        # that an optimizer holds, and a device has no room for that twice.
        copy = torch.empty_strided(plain.shape, plain.stride(), dtype=plain.dtype, device="cpu")
        return copy.copy_(plain)


def _look(tensor: torch.Tensor) -> dict[str, Any]:
    strided = tensor.layout is torch.strided
    return {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()) if strided else None,
        "device": str(tensor.device),
        "alignment": tensor.data_ptr() % 64 if strided else None,
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
    }


def _settings() -> dict[str, Any]:
    """What chooses kernels, as every factor says it is in effect."""
    own = {name: value for factor in CATALOG for name, value in factor.kernel_settings(torch).items()}
    return {**attributes(torch, *_LIBRARIES), **own}


def _environment() -> dict[str, str]:
    names = [name for factor in CATALOG for name in factor.kernel_variables]
    return {name: os.environ[name] for name in names if name in os.environ}
